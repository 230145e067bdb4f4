// Law 4: the relay thread allocates nothing in the step loop.
#include <gtest/gtest.h>

#include "tests/laws/small_run.h"
#include "tests/support/count_allocations.h"

namespace l2l {
namespace {

void* volatile leaked = nullptr;

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

TEST(NoAllocationTwin, OneAllocationAStepIsCaught) {
  const testing::SmallRun run;
  EXPECT_EQ(allocations_of_steps(run.options(), true), 5);
}

}  // namespace
}  // namespace l2l
