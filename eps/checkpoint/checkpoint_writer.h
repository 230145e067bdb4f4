// Saves checkpoints on a thread of its own during training.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>

#include "eps/checkpoint/checkpoint.h"

namespace l2l::eps {

// Thread-bound; one save at a time. Must not outlive the store. The destructor waits for the save and logs its failure.
class CheckpointWriter {
 public:
  // `gather`: of several ranks, each of which has a writer and calls it alike; null: there is one.
  explicit CheckpointWriter(ParameterStore& store, StateGather* gather = nullptr);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Call between two steps: begins to save what the store holds now and returns while save_checkpoint() runs. First
  // waits for the save before, if it still runs, and throws its failure.
  void start(const std::filesystem::path& directory, const SavedRun& state, int keep, Companions companions = {});
  // Whether a save was started and still runs.
  bool running() const;
  // Waits until no save runs; finish() has its outcome.
  void wait() const {
    if (pending_.valid()) pending_.wait();
  }
  // Waits for the save that was started last and returns its folder; an empty path if there is none, or finish()
  // already returned it. Throws its failure.
  std::filesystem::path finish();

 private:
  using Save = std::packaged_task<std::filesystem::path()>;

  void serve();

  ParameterStore& store_;
  StateGather* const gather_;  // of the thread
  std::future<std::filesystem::path> pending_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Save next_;              // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;     // last: it uses all of the above
};

}  // namespace l2l::eps
