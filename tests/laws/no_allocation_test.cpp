// Law 4: the relay thread allocates nothing in the step loop.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/laws/small_run.h"

namespace {

thread_local std::int64_t allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace l2l {
namespace {

std::int64_t allocations_of_steps(const Options& options, bool leak) {
  runtime::RunPlan plan(options);
  runtime::Engine engine(plan, nullptr);
  for (int u = 0; u < 3; ++u) std::fill(engine.minibatch().targets(u).begin(), engine.minibatch().targets(u).end(), 1);
  engine.train(0, 1e-3);
  const std::int64_t before = allocations;
  for (std::uint64_t step = 1; step < 6; ++step) {
    engine.train(step, 1e-3);
    if (leak) delete new int;
  }
  return allocations - before;
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

TEST(NoAllocationTwin, OneAllocationAStepIsCaught) {
  const testing::SmallRun run;
  EXPECT_EQ(allocations_of_steps(run.options(), true), 5);
}

}  // namespace
}  // namespace l2l
