// Versions and leases: who reads weights sees one version, the right one, and nobody changes it meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "l2l/errors.h"
#include "tests/eps/fault_points.h"
#include "tests/eps/toy.h"

namespace l2l::eps::testing {
namespace {

struct LeasedToy {
  explicit LeasedToy(const StoreOptions& store_options = toy_options())
      : options(store_options), store(toy_layout(), options, memory, failure, nullptr) {}
  std::vector<float> gradient(LayerIndex layer, std::uint64_t step) {
    return toy_gradient(store.layout(), layer, 0, step, options.gradients);
  }
  void push(LayerIndex layer, std::uint64_t step) {
    push_gradient(store, gradient(layer, step), options.gradients, layer, 0);
  }
  StoreOptions options;
  TestMemory memory;
  Failure failure;
  ParameterStore store;
};

StoreOptions held_options() {
  StoreOptions options = toy_options();
  options.update = UpdateMode::after_backward;
  return options;
}

TEST(Pull, BlocksUntilTheVersionIsPublished) {
  for (const StoreOptions& options : {toy_options(), held_options()}) {
    LeasedToy toy(options);
    EXPECT_FALSE(toy.store.try_pull(kFirstBlock, 1).has_value());
    std::atomic<bool> pulled{false};
    std::chrono::nanoseconds waited{0};
    std::thread reader([&] {
      const WeightLease lease = toy.store.pull(kFirstBlock, 1, &waited);
      pulled = true;
    });
    toy.store.begin_step(0, 0.01);
    for (const LayerIndex layer : {kHead, kSecondBlock, kEmbedding}) toy.push(layer, 0);
    EXPECT_FALSE(pulled);  // its gradients have not come
    toy.push(kFirstBlock, 0);
    toy.store.finish_step();
    reader.join();
    EXPECT_TRUE(pulled);
    EXPECT_GE(waited.count(), 0);
  }
}

TEST(Pull, WithoutAWaitReportsNone) {
  LeasedToy toy;
  std::chrono::nanoseconds waited{5};
  const WeightLease lease = toy.store.pull(kHead, 0, &waited);
  EXPECT_EQ(waited.count(), 0);
}

TEST(Pull, OfAVersionThatIsGoneIsAnError) {
  LeasedToy toy;
  run_step(toy.store, toy.options, 0);
  EXPECT_THROW(toy.store.pull(kHead, 0), Error);
  EXPECT_THROW(toy.store.try_pull(kHead, 0), Error);
  EXPECT_THROW(toy.store.pull(9, 1), Error);
}

TEST(Pull, OfALayerThatIsNotThereIsAnError) {
  LeasedToy toy;
  const auto layers = static_cast<LayerIndex>(toy.store.layout().layers.size());
  for (const LayerIndex layer : {LayerIndex{-1}, layers}) {
    EXPECT_THROW(toy.store.pull(layer, 0), Error);
    EXPECT_THROW(toy.store.try_pull(layer, 0), Error);
  }
  EXPECT_TRUE(toy.store.try_pull(layers - 1, 0).has_value());
}

TEST(Pull, PartsLieWhereTheLayoutPutsThem) {
  LeasedToy toy;
  const WeightLease lease = toy.store.pull(kHead, 0);
  ASSERT_EQ(lease.parts().size(), 2u);
  EXPECT_EQ(lease.parts()[0].offset, 0u);
  EXPECT_EQ(lease.parts()[0].bytes, 64u * 4);
  EXPECT_EQ(lease.parts()[1].offset, 128u * 4);
  EXPECT_EQ(lease.parts()[1].bytes, 640u * 4);
  const WeightLease embedding = toy.store.pull(kEmbedding, 0);
  EXPECT_EQ(embedding.parts()[0].data, lease.parts()[1].data);  // the tied table is one array
}

// While a lease of h.0 lives and all updates of the step have had their turn: are its bytes still version 0? The
// block's gradients come first and the embedding's last, so an update that did not wait would be over by then.
bool lease_is_stable(LeasedToy& toy) {
  const WeightLease lease = toy.store.pull(kFirstBlock, 0);
  const std::vector<std::byte> before = leased_bytes(lease);
  toy.store.begin_step(0, 0.01);
  for (const LayerIndex layer : {kFirstBlock, kHead, kSecondBlock, kEmbedding}) toy.push(layer, 0);
  toy.store.finish_step();
  for (const LayerIndex layer : {kSecondBlock, kHead, kEmbedding}) toy.store.pull(layer, 1);
  return leased_bytes(lease) == before;
}

TEST(Lease, NoUpdateWhileItLives) {
  LeasedToy eager;
  EXPECT_TRUE(lease_is_stable(eager));
  EXPECT_NE(leased_bytes(eager.store.pull(kFirstBlock, 1)).size(), 0u);  // updated after its release
}

// In held mode the updates come in the order of the next forward: all others are done, one lease is in the way.
TEST(Lease, NoHeldUpdateWhileItLives) {
  LeasedToy toy(held_options());
  EXPECT_TRUE(lease_is_stable(toy));
  toy.store.complete_updates();
}

TEST(Lease, UpdateUnderALeaseIsSeen) {
  L2L_NEEDS_FAULT_POINTS();
  const l2l::testing::ArmedFaultPoint armed("eps.update_under_lease");
  LeasedToy toy;
  EXPECT_FALSE(lease_is_stable(toy));
}

TEST(Lease, UpdateWaitsForTheLastOfSeveral) {
  LeasedToy toy;
  WeightLease first = toy.store.pull(kHead, 0);
  WeightLease second = toy.store.pull(kEmbedding, 0);  // shares the tied table
  toy.store.begin_step(0, 0.01);
  push_all(toy.store, toy.options, 0);
  toy.store.finish_step();
  toy.store.pull(kFirstBlock, 1);
  first.release();
  EXPECT_FALSE(toy.store.try_pull(kHead, 1).has_value());
  WeightLease moved = std::move(second);
  second.release();  // empty: releases nothing
  EXPECT_FALSE(toy.store.try_pull(kHead, 1).has_value());
  moved = WeightLease();
  toy.store.pull(kHead, 1);
}

// What a reader of version 1 gets while version 0 is still leased: nothing, by law.
TEST(Version, StaleOneIsSeen) {
  L2L_NEEDS_FAULT_POINTS();
  LeasedToy toy;
  const WeightLease old = toy.store.pull(kFirstBlock, 0);
  const std::vector<std::byte> version0 = leased_bytes(old);
  EXPECT_FALSE(toy.store.try_pull(kFirstBlock, 1).has_value());
  const l2l::testing::ArmedFaultPoint armed("eps.stale_version");
  const std::optional<WeightLease> stale = toy.store.try_pull(kFirstBlock, 1);
  ASSERT_TRUE(stale.has_value());
  EXPECT_EQ(leased_bytes(*stale), version0);
}

TEST(Version, EveryStepChangesEveryLayer) {
  LeasedToy toy;
  for (std::uint64_t step = 0; step < 2; ++step) {
    std::vector<std::vector<std::byte>> before;
    for (LayerIndex layer = 0; layer <= kHead; ++layer) before.push_back(leased_bytes(toy.store.pull(layer, step)));
    run_step(toy.store, toy.options, step);
    for (LayerIndex layer = 0; layer <= kHead; ++layer) {
      EXPECT_NE(leased_bytes(toy.store.pull(layer, step + 1)), before[static_cast<std::size_t>(layer)]);
    }
  }
}

// The rate of step t belongs to step t, also when its updates run after begin_step(t + 1).
TEST(Held, UpdateUsesTheRateOfItsOwnStep) {
  LeasedToy plain(held_options());
  plain.store.begin_step(0, 0.01);
  push_all(plain.store, plain.options, 0);
  plain.store.finish_step();
  plain.store.complete_updates();

  LeasedToy late(held_options());
  std::vector<WeightLease> leases;
  for (LayerIndex layer = 0; layer <= kHead; ++layer) leases.push_back(late.store.pull(layer, 0));
  late.store.begin_step(0, 0.01);
  push_all(late.store, late.options, 0);
  late.store.finish_step();
  late.store.begin_step(1, 1000.0);
  leases.clear();
  for (LayerIndex layer = 0; layer <= kHead; ++layer) late.store.pull(layer, 1);
  EXPECT_EQ(whole_state(late.store), whole_state(plain.store));
}

TEST(Steps, OutOfOrderCallsAreErrors) {
  LeasedToy toy;
  EXPECT_THROW(toy.store.finish_step(), Error);
  EXPECT_THROW(toy.store.begin_step(1, 0.01), Error);
  EXPECT_THROW(toy.push(kHead, 0), Error);  // before begin_step
  toy.store.begin_step(0, 0.01);
  EXPECT_THROW(toy.store.begin_step(0, 0.01), Error);
  EXPECT_THROW(toy.store.complete_updates(), Error);
  EXPECT_THROW(toy.store.push(kHead, 0, toy.store.gradient_buffer(kFirstBlock, 0)), Error);
  EXPECT_THROW(toy.store.push(kHead, 1, toy.store.gradient_buffer(kHead, 0)), Error);
  EXPECT_THROW(toy.store.push(kHead, 0, GradientBuffer()), Error);
  toy.push(kHead, 0);
  GradientBuffer again = toy.store.gradient_buffer(kEmbedding, 0);
  EXPECT_THROW(toy.store.push(kHead, 0, std::move(again)), Error);  // the norm's group may be updated already, or not
  for (const LayerIndex layer : {kSecondBlock, kFirstBlock, kEmbedding}) toy.push(layer, 0);
  toy.store.finish_step();  // none of the errors has left a trace
  toy.store.complete_updates();
}

}  // namespace
}  // namespace l2l::eps::testing
