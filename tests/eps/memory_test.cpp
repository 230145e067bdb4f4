// The memory contract of the store, and gradient buffers as a bounded resource.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "eps/group_memory.h"
#include "l2l/errors.h"
#include "tests/eps/toy.h"

namespace l2l::eps::testing {
namespace {

std::vector<StoreOptions> all_options() {
  std::vector<StoreOptions> all;
  for (const DType wire : {DType::f32, DType::bf16, DType::f16}) {
    for (const DType gradients : {DType::f32, DType::bf16, DType::f16}) {
      if (!optimizers::has_update_kernels(gradients, optimizers::master_format(wire))) continue;
      for (const UpdateMode update : {UpdateMode::eager, UpdateMode::after_backward}) {
        for (const int devices : {1, 2}) {
          StoreOptions options = toy_options();
          options.wire = wire;
          options.gradients = gradients;
          options.update = update;
          options.devices = devices;
          all.push_back(options);
          options.optimizer = optimizers::SgdSettings();
          all.push_back(options);
        }
      }
    }
  }
  return all;
}

TEST(BytesNeeded, AreWhatIsAskedFor) {
  for (const StoreOptions& options : all_options()) {
    const StoreBytes bytes = ParameterStore::bytes_needed(toy_layout(), options);
    TestMemory memory;
    Failure failure;
    const ParameterStore store(toy_layout(), options, memory, failure, nullptr);
    EXPECT_EQ(bytes.state, memory.total_for("weights and moments"));
    EXPECT_EQ(bytes.held, memory.total_for("held gradients"));
    EXPECT_EQ(bytes.staging, memory.total_for("staging"));
    EXPECT_EQ(bytes.state + bytes.held + bytes.staging, memory.total());
  }
}

// 12 bytes per element in fp32 as well as with a split master, 14 in fp16; 4 less with one moment
// (docs/parameter-server.md, State formats).
TEST(BytesNeeded, ByHand) {
  constexpr Bytes kElements = 640 + 128 + 2 * 19776 + 64;
  constexpr Bytes kLayerElements = 768 + 2 * 19776 + 768;
  // Fields of a group begin apart modulo a page (eps/group_memory.cpp): up to 2.5 KiB before each but the first.
  const auto skewed = [](const StoreOptions& store, Bytes fields) {
    const Bytes state = ParameterStore::bytes_needed(toy_layout(), store).state;
    return state >= fields && state <= fields + 5 * 3 * 2560;
  };
  StoreOptions options = toy_options();
  EXPECT_TRUE(skewed(options, 12 * kElements));
  EXPECT_EQ(ParameterStore::bytes_needed(toy_layout(), options).staging, (3u + 1u) * 19776 * 4);
  options.wire = options.gradients = DType::bf16;
  EXPECT_TRUE(skewed(options, 12 * kElements));
  options.wire = options.gradients = DType::f16;
  EXPECT_TRUE(skewed(options, 14 * kElements));
  options.optimizer = optimizers::LambSettings();
  EXPECT_TRUE(skewed(options, 14 * kElements));
  options.optimizer = optimizers::SgdSettings();
  EXPECT_TRUE(skewed(options, 10 * kElements));
  options.wire = DType::f32;
  EXPECT_TRUE(skewed(options, 8 * kElements));
  options.update = UpdateMode::after_backward;
  options.devices = 2;
  EXPECT_EQ(ParameterStore::bytes_needed(toy_layout(), options).held, 2 * 2 * kLayerElements);
  EXPECT_EQ(ParameterStore::bytes_needed(toy_layout(), options).staging, 0u);
}

// A group of any size has its place, also where five of six fields leave no address that is far enough from all.
TEST(BytesNeeded, FieldsOfGroupsOfAnySize) {
  StoreOptions options = toy_options();
  options.moments = {optimizers::MomentFormat::int8, optimizers::MomentFormat::int8};
  for (const DType wire : {DType::bf16, DType::f16}) {
    options.wire = wire;
    for (std::int64_t elements = 1; elements < 20000; ++elements) {
      GroupSpec group{.name = "g", .parameters = {}, .elements = elements};
      group.parameters.push_back({.name = "w", .shape = {elements}});
      EXPECT_LE(GroupMemory::bytes(group, options), static_cast<Bytes>(8 * elements + 6 * 4096)) << elements;
    }
  }
}

// Blocks, and the jobs that they are updated in; with checksums also those of the blocks.
TEST(BytesNeeded, ListsByHand) {
  const std::int64_t elements = 5 * kBlock - 1;
  const auto group_of = [&](bool trained) {
    GroupSpec group{.name = "g", .parameters = {}, .elements = elements};
    group.parameters.push_back({.name = "w", .shape = {elements}, .trained = trained});
    return group;
  };
  StoreOptions options = toy_options();
  const auto bytes = [&](bool trained) { return GroupMemory::list_bytes(group_of(trained), options); };
  options.verify = false;
  EXPECT_EQ(bytes(true), 5 * (sizeof(Block) + sizeof(BlockRange)));
  EXPECT_EQ(bytes(false), 0u);
  options.verify = true;
  EXPECT_EQ(bytes(true), 5 * (sizeof(Block) + sizeof(BlockRange) + sizeof(StateSums)));
  EXPECT_EQ(bytes(false), 5 * (sizeof(Block) + sizeof(StateSums)));
}

TEST(GradientBuffers, BoundedWhenEager) {
  StoreOptions options = toy_options();
  options.staging_slots = 1;
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  GradientBuffer first = store.gradient_buffer(kHead, 0);
  GradientBuffer second = store.gradient_buffer(kSecondBlock, 0);  // the slot for the tied table
  EXPECT_EQ(first.bytes(), 768u * 4);
  EXPECT_EQ(second.bytes(), 19776u * 4);
  EXPECT_NE(first.data(), second.data());
  std::atomic<bool> taken{false};
  std::thread third([&] {
    const GradientBuffer buffer = store.gradient_buffer(kFirstBlock, 0);
    taken = true;
  });
  EXPECT_FALSE(taken);
  first = GradientBuffer();  // unused buffers go back
  third.join();
  EXPECT_TRUE(taken);
}

// One staging slot carries any order, the first use of the tied table waiting in the extra one.
TEST(GradientBuffers, OneStagingSlotIsEnough) {
  StoreOptions options = toy_options();
  options.staging_slots = 1;
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  for (std::uint64_t step = 0; step < 3; ++step) run_step(store, options, step);
  EXPECT_EQ(store.update_count(kTable), 3u);
}

// What a device that is ahead has pushed waits for the others, and leaves them their room.
TEST(GradientBuffers, AFastDeviceLeavesRoomForASlowOne) {
  StoreOptions options = toy_options();
  options.devices = options.staging_slots = 2;
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  store.begin_step(0, 0.01);
  std::atomic<int> pushed{0};
  std::thread fast([&] {
    for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
      push_gradient(store, toy_gradient(store.layout(), layer, 0, 0, DType::f32), DType::f32, layer, 0);
      ++pushed;
    }
  });
  for (int turns = 0; turns < 1000 || pushed < 2; ++turns) std::this_thread::yield();
  EXPECT_EQ(pushed, 2);  // its share: one slot, and the one for the tied table
  for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
    push_gradient(store, toy_gradient(store.layout(), layer, 1, 0, DType::f32), DType::f32, layer, 1);
  }
  fast.join();
  store.finish_step();
  store.complete_updates();
  EXPECT_EQ(store.update_count(kTable), 1u);
  EXPECT_THROW(store.gradient_buffer(kHead, 2), Error);
}

TEST(GradientBuffers, HeldOneIsFreeAfterItsUpdate) {
  StoreOptions options = toy_options();
  options.update = UpdateMode::after_backward;
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  WeightLease lease = store.pull(kSecondBlock, 0);
  store.begin_step(0, 0.01);
  push_all(store, options, 0);
  store.finish_step();
  store.begin_step(1, 0.01);
  std::atomic<bool> taken{false};
  std::thread waiter([&] {
    const GradientBuffer buffer = store.gradient_buffer(kSecondBlock, 0);
    taken = true;
  });
  { const GradientBuffer other = store.gradient_buffer(kFirstBlock, 0); }  // its update is not in the way
  EXPECT_FALSE(taken);
  lease.release();
  waiter.join();
}

TEST(Options, ThatCannotWorkAreRefused) {
  TestMemory memory;
  Failure failure;
  const auto refuse = [&](const StoreOptions& options) {
    EXPECT_THROW(ParameterStore(toy_layout(), options, memory, failure, nullptr), BadInput);
  };
  StoreOptions options = toy_options();
  options.wire = DType::f64;
  refuse(options);
  options = toy_options();
  options.gradients = DType::i32;
  refuse(options);
  options = toy_options();
  options.gradients = DType::f16;  // of an fp32 wire
  refuse(options);
  options = toy_options();
  options.devices = 4;  // staging_slots is 3
  refuse(options);
  options = toy_options();
  options.threads = 0;
  refuse(options);
  options = toy_options();
  options.clip = ClipMode::global;
  options.max_norm = 0;
  refuse(options);
}

}  // namespace
}  // namespace l2l::eps::testing
