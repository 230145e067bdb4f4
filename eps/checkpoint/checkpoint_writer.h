// Saves checkpoints on a thread of its own, beside training.
#pragma once

#include <filesystem>
#include <future>

#include "eps/checkpoint/checkpoint.h"

namespace l2l::eps {

// Thread-bound; one save at a time. Must not outlive the store. The destructor waits for the save and logs its failure.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(ParameterStore& store) : store_(store) {}
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Begins to save what the store holds, between two steps, and returns at once: save_checkpoint() beside the next
  // steps. Waits for the save before, if it still runs, and throws its failure.
  void start(const std::filesystem::path& directory, const RunState& state, int keep);
  // A save was started and still runs.
  bool running() const;
  // Waits for the save that was started last and returns its folder, once; else an empty path. Throws its failure.
  std::filesystem::path finish();

 private:
  ParameterStore& store_;
  std::future<std::filesystem::path> pending_;
};

}  // namespace l2l::eps
