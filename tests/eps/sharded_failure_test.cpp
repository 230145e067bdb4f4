// Every call of the file system on one of several ranks fails once, or from then on: all ranks are told which rank,
// file and reason, the checkpoints of before are whole, and the next save clears the rest away.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>

#include "core/files.h"
#include "l2l/log.h"
#include "tests/eps/crash_scenario.h"
#include "tests/support/locked_disk.h"

namespace l2l::eps {
namespace {

using namespace testing;
using ::l2l::testing::DiskFault;
using ::l2l::testing::FailingDisk;
using ::l2l::testing::LockedDisk;
using ::l2l::testing::MemoryDisk;

constexpr int kRanks = 3;
constexpr DiskFault kFaultsOfOne[] = {{0, EIO, false}, {0, ENOSPC, true}};

class SaveOfRanks {
 public:
  SaveOfRanks() : ranks_(small_layout(), kRanks) {
    set_log_sink([](LogLevel, std::string_view) {});
    disk_.make_folder("/data");
    save(1, 2);
    old_ = last_;
  }
  ~SaveOfRanks() { set_log_sink({}); }

  // A save with a fault on the disk of rank `broken`, or on none. What each rank throws.
  std::vector<std::string> save(std::uint64_t step, int keep, std::size_t broken = 0, DiskFault fault = {}) {
    ranks_.all([&](StoreOfRank& rank) { change(rank.store(), 1000 * step); });
    last_ = {step, ranks_.state_hash()};
    return with_fault(broken, fault, [&] { return ranks_.try_save(kDirectory, at_step(step), keep); });
  }

  // A load of what was saved first with a fault on the disk of rank `broken`. What each rank throws.
  std::vector<std::string> load(std::size_t broken, DiskFault fault) {
    const auto of_rank = [](StoreOfRank& rank) {
      static_cast<void>(load_checkpoint(fs::path(kDirectory) / "step-00000001", rank.store(), false, &rank.gather));
    };
    return with_fault(broken, fault, [&] { return ranks_.together(of_rank); });
  }

  std::optional<Saved> found() {
    const FileSystemOverride replaced(disk_);
    return resume(kDirectory);
  }
  std::vector<std::string> names() {
    std::vector<std::string> names;
    disk_.list(kDirectory, names);
    return names;
  }
  std::size_t calls() const { return calls_; }  // of rank `broken` in the last save or load
  std::optional<Saved> old() const { return old_; }
  std::optional<Saved> last() const { return last_; }

 private:
  // What `body` returns on disks of which that of rank `broken` has a fault.
  template <typename Body>
  std::vector<std::string> with_fault(std::size_t broken, DiskFault fault, const Body& body) {
    std::vector<std::unique_ptr<FailingDisk>> disks;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      disks.push_back(std::make_unique<FailingDisk>(disk_, rank == broken ? fault : DiskFault()));
    LockedDisk of_all([&]() -> FileSystem& { return *disks[rank_of_thread]; });
    const FileSystemOverride replaced(of_all);
    std::vector<std::string> thrown = body();
    calls_ = disks[broken]->calls();
    return thrown;
  }

  MemoryDisk disk_;
  RankStores ranks_;
  std::optional<Saved> old_, last_;
  std::size_t calls_ = 0;
};

void expect_told(const std::vector<std::string>& thrown, std::size_t broken, const DiskFault& fault) {
  for (const std::string& message : thrown) {
    EXPECT_EQ(message, thrown[0]);
    EXPECT_TRUE(message.starts_with("rank " + std::to_string(broken) + ": /data")) << message;
    EXPECT_SAYS(message, std::strerror(fault.error));
  }
}

TEST(FailingSaveOfRanks, TellsAllAndLosesNothing) {
  std::size_t failed = 0, saved = 0;
  for (std::size_t broken = 0; broken < kRanks; ++broken) {
    std::size_t calls = 0;
    {
      SaveOfRanks attempt;
      attempt.save(2, 2, broken);
      calls = attempt.calls();
    }
    ASSERT_GT(calls, 4u);
    for (DiskFault fault : kFaultsOfOne) {
      for (fault.call = 1; fault.call <= calls; ++fault.call) {
        SCOPED_TRACE("rank " + std::to_string(broken) + ", call " + std::to_string(fault.call) + ": " +
                     std::strerror(fault.error));
        SaveOfRanks attempt;
        const std::vector<std::string> thrown = attempt.save(2, 2, broken, fault);
        const bool threw = std::ranges::any_of(thrown, [](const std::string& each) { return !each.empty(); });
        if (threw) expect_told(thrown, broken, fault);
        const std::optional<Saved> found = attempt.found();
        // Where only the fsync after the publication failed, the new one may be there.
        EXPECT_TRUE(found == attempt.last() || (threw && found == attempt.old()));
        const auto is_hidden = [](const std::string& name) { return name.starts_with("."); };
        if (threw && broken > 0) {
          EXPECT_EQ(std::ranges::count_if(attempt.names(), is_hidden), 0) << "no half checkpoint";
        }
        EXPECT_EQ(attempt.save(9, 1), std::vector<std::string>(kRanks));
        EXPECT_EQ(attempt.found(), attempt.last());
        EXPECT_EQ(attempt.names(), std::vector<std::string>{"step-00000009"});
        (threw ? failed : saved) += 1;
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
  EXPECT_GT(failed, 50u);
  std::cout << failed << " saves failed, " << saved << " did in spite of the fault\n";
}

// Each tries an older checkpoint then, or none does.
TEST(FailingLoadOfRanks, IsRefusedByAll) {
  for (std::size_t broken = 0; broken < kRanks; ++broken) {
    SaveOfRanks attempt;
    EXPECT_EQ(attempt.load(broken, {}), std::vector<std::string>(kRanks));
    const std::size_t calls = attempt.calls();
    std::size_t refused = 0;
    for (DiskFault fault{1, EIO, true}; fault.call <= calls; ++fault.call) {
      SCOPED_TRACE("rank " + std::to_string(broken) + ", call " + std::to_string(fault.call));
      const std::vector<std::string> thrown = attempt.load(broken, fault);
      const auto silent = std::ranges::count_if(thrown, [](const std::string& each) { return each.empty(); });
      EXPECT_TRUE(silent == 0 || silent == kRanks) << ::testing::PrintToString(thrown);
      refused += silent == 0 ? 1 : 0;
    }
    EXPECT_GT(refused, calls / 2);  // the last ones close files that were read
  }
}

// A disk on which rank 1 does not come back from one kind of call before it is let go.
class SlowDisk final : public LockedDisk {
 public:
  enum class Call : std::uint8_t { create, sync };
  SlowDisk(FileSystem& disk, Call slow) : LockedDisk([&disk]() -> FileSystem& { return disk; }), slow_(slow) {}

  int create(const Path& file) override {
    stop_at(Call::create);
    return LockedDisk::create(file);
  }
  int sync(int descriptor) override {
    stop_at(Call::sync);
    return LockedDisk::sync(descriptor);
  }
  void wait_until_stopped() { stopped_.get_future().wait(); }
  void let_go() { go_.set_value(); }

 private:
  void stop_at(Call call) {
    if (call != slow_ || rank_of_thread != 1 || std::exchange(done_, true)) return;
    stopped_.set_value();
    go_.get_future().wait();
  }

  const Call slow_;
  bool done_ = false;  // of rank 1's thread
  std::promise<void> stopped_, go_;
};

// Whether the save of each rank has ended, so that updates go on, while rank 1 is in that call.
std::vector<bool> goes_on_during(SlowDisk::Call call) {
  MemoryDisk disk;
  disk.make_folder("/data");
  SlowDisk slow(disk, call);
  const FileSystemOverride replaced(slow);
  RankStores ranks(small_layout(), kRanks);
  std::thread saver([&] { ranks.save(kDirectory, at_step(1), 1); });
  slow.wait_until_stopped();
  std::vector<bool> goes_on(kRanks, false);
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(call == SlowDisk::Call::sync ? 20000 : 100);
  while (std::ranges::count(goes_on, false) > 0 && std::chrono::steady_clock::now() < deadline) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      try {
        const StateSave another = ranks[rank].store().begin_save();
        goes_on[rank] = true;
      } catch (const Error&) {  // the one before has not ended
      }
    }
    std::this_thread::yield();
  }
  slow.let_go();
  saver.join();
  return goes_on;
}

TEST(SaveOfRanks, TrainingDoesNotWaitForTheDiskOfAnotherRank) {
  EXPECT_EQ(goes_on_during(SlowDisk::Call::sync), std::vector<bool>(kRanks, true));
}

// Negative control: before the groups are sent it does.
TEST(SaveOfRanks, ASaveThatHasNotEndedIsSeen) {
  EXPECT_EQ(goes_on_during(SlowDisk::Call::create), std::vector<bool>(kRanks, false));
}

}  // namespace
}  // namespace l2l::eps
