// Law 4: the relay thread allocates nothing in the step loop.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/laws/small_run.h"
#include "tests/support/count_allocations.h"

namespace l2l {
namespace {

thread_local void* volatile leaked = nullptr;

std::int64_t allocations_of_steps(const Options& options, bool leak) {
  Trainer trainer(options);
  trainer.step();
  const std::int64_t before = testing::allocations;
  for (int step = 0; step < 5; ++step) {
    trainer.step();
    if (leak) {
      leaked = ::operator new(1);
      ::operator delete(leaked);
    }
  }
  return testing::allocations - before;
}

TEST(NoAllocation, InStepsAfterTheFirst) {
  const testing::SmallRun run;
  for (const char* execution : {"relay", "resident"}) {
    for (const char* stash : {"host", "device"}) {
      for (const char* clip : {"none", "global"}) {
        Options options = run.options();
        options.device.execution = execution;
        options.transfer.stash = stash;
        options.optimizer.clip = clip;
        EXPECT_EQ(allocations_of_steps(options, false), 0) << execution << ", stash " << stash << ", clip " << clip;
      }
    }
  }
}

TEST(NoAllocation, InFp16WithSkippedSteps) {
  const testing::SmallRun run;
  Options options = run.options();
  options.precision.compute = "fp16";
  options.precision.loss_scale_growth = 1;
  options.optimizer.name = "lamb";
  EXPECT_EQ(allocations_of_steps(options, false), 0);
}

TEST(NoAllocation, InBertAndLlama) {
  const testing::SmallRun run;
  for (const char* const family : {"bert", "llama"}) EXPECT_EQ(allocations_of_steps(run.options(family), false), 0);
}

// A stash of which some blocks' parts leave, values that blocks save, and weights that stay.
TEST(NoAllocation, WhereBlocksDiffer) {
  const testing::SmallRun run;
  for (const char* execution : {"relay", "resident"}) {
    Options options = run.options();
    options.device.execution = execution;
    options.recompute.policy = "min_cut";
    if (execution == std::string("relay")) options.transfer.resident_layers = 1;
    options.transfer.stash = "host";
    const std::uint64_t least = Trainer(options).contract().device_bytes;
    options.transfer.stash = "device";
    options.device.memory = (least + Trainer(options).contract().device_bytes) / 2;
    options.transfer.stash = "auto";
    // Resident execution keeps one microbatch: what leaves on its way may need more than its stash.
    if (execution == std::string("relay")) {
      EXPECT_EQ(Trainer(options).contract().stash, "split");
    }
    EXPECT_EQ(allocations_of_steps(options, false), 0) << execution;
  }
}

TEST(NoAllocation, InReversibleModels) {
  const testing::SmallRun run;
  for (const char* execution : {"relay", "resident"}) {
    for (const char* reversible : {"fixed", "float"}) {
      Options options = run.options();
      options.device.execution = execution;
      options.model.reversible = reversible;
      EXPECT_EQ(allocations_of_steps(options, false), 0) << execution << ", " << reversible;
    }
  }
}

// Watches the thread that enqueues: the device's relay thread.
class WatchedDevice final : public device::ForwardingDevice {
 public:
  WatchedDevice(std::unique_ptr<device::HostDevice> device, const std::atomic<int>& step, bool leak,
                std::int64_t& allocations)
      : ForwardingDevice(std::move(device)), step_(step), leak_(leak), allocations_(allocations) {}

  // From the first launch after the first step to the last one.
  void launch(device::Stream& stream, const device::Executable& executable, const device::Bindings& bindings,
              const device::LaunchParameters& parameters) override {
    if (step_ > 0) {
      if (leak_) {
        leaked = ::operator new(1);
        ::operator delete(leaked);
      }
      if (first_ < 0) first_ = testing::allocations;
      allocations_ = testing::allocations - first_;
    }
    ForwardingDevice::launch(stream, executable, bindings, parameters);
  }

 private:
  const std::atomic<int>& step_;
  const bool leak_;
  std::int64_t& allocations_;
  std::int64_t first_ = -1;
};

std::vector<std::int64_t> allocations_of_relay_threads(const Options& options, bool leak) {
  std::vector<std::int64_t> allocations(static_cast<std::size_t>(options.device.count), -1);
  std::atomic<int> step{0};
  std::size_t opened = 0;
  testing::record_on(
      options, 5,
      [&](std::unique_ptr<device::HostDevice> device) {
        return std::make_unique<WatchedDevice>(std::move(device), step, leak, allocations[opened++]);
      },
      [] {}, [&](runtime::Engine&, int at) { step = at; });
  return allocations;
}

// The calling thread's own draw of data lies between the steps: the other threads are watched.
TEST(NoAllocation, OnTheRelayThreadsOfSeveralDevices) {
  const testing::SmallRun run;
  for (const char* execution : {"relay", "resident"}) {
    for (const char* clip : {"none", "global"}) {
      Options options = run.options();
      options.device.count = 3;
      options.device.execution = execution;
      options.optimizer.clip = clip;
      EXPECT_EQ(allocations_of_steps(options, false), 0);
      const std::vector<std::int64_t> allocations = allocations_of_relay_threads(options, false);
      EXPECT_EQ(allocations[1], 0) << execution << ", clip " << clip;
      EXPECT_EQ(allocations[2], 0) << execution << ", clip " << clip;
    }
  }
}

TEST(NoAllocationNegativeControl, OneAllocationALaunchOnARelayThreadIsCaught) {
  const testing::SmallRun run;
  Options options = run.options();
  options.device.count = 3;
  EXPECT_GT(allocations_of_relay_threads(options, true)[2], 10);
}

TEST(NoAllocationNegativeControl, OneAllocationAStepIsCaught) {
  const testing::SmallRun run;
  EXPECT_EQ(allocations_of_steps(run.options(), true), 5);
}

}  // namespace
}  // namespace l2l
