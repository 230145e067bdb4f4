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
void* operator new(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  const auto step = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(step, (size + step - 1) / step * step)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace l2l {
namespace {

void* volatile leaked = nullptr;

std::int64_t allocations_of_steps(const Options& options, bool leak) {
  Trainer trainer(options);
  trainer.step();
  const std::int64_t before = allocations;
  for (int step = 0; step < 5; ++step) {
    trainer.step();
    if (leak) {
      leaked = ::operator new(1);
      ::operator delete(leaked);
    }
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
