// Law 4 for the store: once warm, its calls do not allocate on the caller's thread.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/eps/toy.h"

namespace {

thread_local std::size_t allocations = 0;

void* counted(std::size_t size) {
  ++allocations;
  void* const memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace l2l::eps::testing {
namespace {

// One step as the relay drives it; the gradients are zeros, which is what the buffers hold.
void step_through(ParameterStore& store, std::uint64_t step) {
  for (LayerIndex layer = kEmbedding; layer <= kHead; ++layer) {
    const WeightLease lease = store.pull(layer, step);
    ASSERT_FALSE(lease.parts().empty());
  }
  store.begin_step(step, 0.01);
  for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
    GradientBuffer buffer = store.gradient_buffer(layer);
    std::memset(buffer.data(), 0, buffer.bytes());
    store.push(layer, 0, std::move(buffer));
  }
  store.finish_step();
}

TEST(SteadyState, CallsDoNotAllocate) {
  for (const UpdateMode update : {UpdateMode::eager, UpdateMode::after_backward}) {
    StoreOptions options = toy_options();
    options.update = update;
    options.threads = 2;
    TestMemory memory;
    Failure failure;
    Trace trace(1000);
    ParameterStore store(toy_layout(), options, memory, failure, &trace);
    step_through(store, 0);
    const std::size_t before = allocations;
    for (std::uint64_t step = 1; step < 5; ++step) step_through(store, step);
    EXPECT_EQ(allocations, before);
    store.complete_updates();
  }
}

TEST(SteadyState, TheCounterCounts) {
  const std::size_t before = allocations;
  const std::vector<int> some(10);
  EXPECT_EQ(allocations, before + 1);
}

}  // namespace
}  // namespace l2l::eps::testing
