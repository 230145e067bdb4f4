// Law 4 for the store: once warm, its calls do not allocate on the caller's thread.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/eps/toy.h"
#include "tests/support/count_allocations.h"

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
    GradientBuffer buffer = store.gradient_buffer(layer, 0);
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
    const std::int64_t before = l2l::testing::allocations;
    for (std::uint64_t step = 1; step < 5; ++step) step_through(store, step);
    EXPECT_EQ(l2l::testing::allocations, before);
    store.complete_updates();
  }
}

TEST(SteadyState, TheCounterCounts) {
  const std::int64_t before = l2l::testing::allocations;
  const std::vector<int> some(10);
  EXPECT_EQ(l2l::testing::allocations, before + 1);
}

}  // namespace
}  // namespace l2l::eps::testing
