// Saves on a disk that remembers, and what must be found on it whenever the power fails.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/eps/rank_stores.h"
#include "tests/support/failing_disk.h"
#include "tests/support/memory_disk.h"

namespace l2l::eps::testing {

// A checkpoint by what it restores.
struct Saved {
  std::uint64_t step = 0;
  std::uint64_t hash = 0;  // ParameterStore::state_hash()
  auto operator<=>(const Saved&) const = default;
};

// Gives a store a state of its own for every version.
void change(ParameterStore& store, std::uint64_t version);

// Nothing where no checkpoint can be loaded. As Trainer::resume: the newest that loads.
std::optional<Saved> resume(const std::filesystem::path& directory);

// Does things to the folder kDirectory of a MemoryDisk and writes down which checkpoints they promise.
class CrashScenario {
 public:
  // With `ranks` above 1 as many save together.
  explicit CrashScenario(int ranks = 1);

  // Saves a state that no other save has; with `killed_at` a process that is killed at that call of the file system.
  // Returns the number of calls.
  std::size_t save(std::uint64_t step, int keep, std::size_t killed_at = 0);
  void set_aside(std::int64_t steps);
  // What a save of another process left behind.
  void leave_stale_folder();

  const ::l2l::testing::MemoryDisk& disk() const { return disk_; }
  // Says what is wrong on the disk after `loss`, with recovery and with saves from then on; empty when nothing is.
  std::string problem(const ::l2l::testing::PowerLoss& loss) const;

 private:
  // What holds from one operation on until the next promise.
  struct Promise {
    std::size_t from = 0;
    std::set<Saved> newest;    // one of these is what resume() finds
    bool perhaps_none = true;  // or nothing
    std::set<Saved> kept;      // all of these are whole, in the directory or set aside
  };

  const Promise& promised(std::size_t operations) const;
  void promise(Promise promise);
  // Of all ranks.
  void change_state();
  std::uint64_t state_hash();
  void save_state(std::uint64_t step, int keep);

  ::l2l::testing::MemoryDisk disk_;
  std::unique_ptr<TestRun> run_;       // of one rank
  std::unique_ptr<RankStores> ranks_;  // of several
  std::uint64_t version_ = 0;
  std::vector<Promise> promises_;
  std::vector<Saved> there_;  // in the directory, oldest first
  std::set<Saved> aside_;
};

inline constexpr const char* kDirectory = "/data/checkpoints/run";

}  // namespace l2l::eps::testing
