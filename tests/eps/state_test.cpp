// The state as others see it: reading, writing, hashing, and going on from a saved one.
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>

#include "core/hash.h"
#include "l2l/errors.h"
#include "tests/eps/toy.h"
#include "tests/support/parameter_state.h"

namespace l2l::eps::testing {
namespace {

struct Toy {
  explicit Toy(const StoreOptions& store_options)
      : options(store_options), store(toy_layout(), options, memory, failure, nullptr) {}
  StoreOptions options;
  TestMemory memory;
  Failure failure;
  ParameterStore store;
};

StoreOptions with_wire(DType wire) {
  StoreOptions options = toy_options();
  options.wire = wire;
  return options;
}

void copy_state(const ParameterStore& from, ParameterStore& to) {
  for (std::size_t group = 0; group < from.layout().groups.size(); ++group) {
    const std::vector<ParameterSpec>& parameters = from.layout().groups[group].parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::size_t count = static_cast<std::size_t>(parameters[i].shape.elements());
      std::vector<float> master(count), moment1(count), moment2(count);
      read_state(from, static_cast<GroupIndex>(group), i, {master, moment1, moment2});
      write_state(to, static_cast<GroupIndex>(group), i, {master, moment1, moment2});
    }
  }
}

TEST(State, WrittenValuesAreReadBackBitForBit) {
  for (const DType wire : {DType::f32, DType::bf16, DType::f16}) {
    Toy toy(with_wire(wire));
    const std::size_t count = 19500;
    std::mt19937 generator(3);
    std::vector<float> master(count), moment1(count), moment2(count);
    for (std::vector<float>* field : {&master, &moment1, &moment2}) {
      for (float& value : *field) value = std::bit_cast<float>(static_cast<std::uint32_t>(generator()) & 0xbf7fffffu);
    }
    master[0] = std::numeric_limits<float>::max();
    master[1] = -0.0f;
    master[2] = std::numeric_limits<float>::denorm_min();
    write_state(toy.store, kBlock1, 1, {master, moment1, moment2});
    std::vector<float> master_again(count), moment1_again(count), moment2_again(count);
    read_state(toy.store, kBlock1, 1, {master_again, moment1_again, moment2_again});
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(master_again[i]), std::bit_cast<std::uint32_t>(master[i])) << i;
    }
    EXPECT_EQ(moment1_again, moment1);
    EXPECT_EQ(moment2_again, moment2);
  }
}

TEST(State, OfAnotherLengthIsAnError) {
  Toy toy(toy_options());
  std::vector<float> long_one(17), right(16);
  EXPECT_THROW(read_state(toy.store, kNorm, 0, {right, long_one, right}), Error);
  EXPECT_THROW(write_state(toy.store, kNorm, 0, {long_one, right, right}), Error);
}

TEST(State, HashIsOverNamesAndFieldsInOrder) {
  Toy toy(with_wire(DType::bf16));
  run_step(toy.store, toy.options, 0);
  const std::vector<float> state = whole_state(toy.store);
  Hash64 hash;
  std::size_t begin = 0;
  for (const GroupSpec& group : toy.store.layout().groups) {
    for (const ParameterSpec& parameter : group.parameters) {
      const std::size_t count = 3 * static_cast<std::size_t>(parameter.shape.elements());
      hash.update(std::as_bytes(std::span(parameter.name)));
      hash.update(std::as_bytes(std::span(state).subspan(begin, count)));
      begin += count;
    }
  }
  EXPECT_EQ(toy.store.state_hash(), hash.value());
}

TEST(State, HashSeesEveryField) {
  Toy toy(toy_options());
  std::vector<float> master(16), moment1(16), moment2(16);
  read_state(toy.store, kNorm, 1, {master, moment1, moment2});
  std::uint64_t last = toy.store.state_hash();
  for (std::vector<float>* field : {&master, &moment1, &moment2}) {
    (*field)[5] += 0x1p-30f;
    write_state(toy.store, kNorm, 1, {master, moment1, moment2});
    EXPECT_NE(toy.store.state_hash(), last);
    last = toy.store.state_hash();
  }
}

// A second store, with another wire and mode, goes on from the first one's state after two steps.
TEST(Restore, GoesOnWithTheSameBits) {
  for (const DType wire : {DType::f32, DType::bf16, DType::f16}) {
    Toy whole(with_wire(DType::f32));
    for (std::uint64_t step = 0; step < 4; ++step) run_step(whole.store, whole.options, step);

    Toy before(with_wire(DType::f32));
    for (std::uint64_t step = 0; step < 2; ++step) run_step(before.store, before.options, step);
    StoreOptions options = with_wire(wire);
    options.update = UpdateMode::after_backward;
    options.seed = 99;
    Toy after(options);
    copy_state(before.store, after.store);
    std::vector<std::uint64_t> counts;
    for (GroupIndex group = 0; group < 5; ++group) counts.push_back(before.store.update_count(group));
    after.store.restore(2, counts);
    EXPECT_FALSE(after.store.try_pull(kHead, 3).has_value());
    EXPECT_TRUE(after.store.try_pull(kHead, 2).has_value());
    for (std::uint64_t step = 2; step < 4; ++step) run_step(after.store, after.options, step);
    EXPECT_EQ(after.store.state_hash(), whole.store.state_hash());
    EXPECT_EQ(after.store.update_count(kTable), 4u);
  }
}

// Negative control: counts that are not restored show in the bits, through the bias correction.
TEST(Restore, WithoutCountsIsSeen) {
  Toy whole(toy_options()), after(toy_options());
  run_step(whole.store, whole.options, 0);
  copy_state(whole.store, after.store);
  run_step(whole.store, whole.options, 1);
  after.store.restore(1, std::vector<std::uint64_t>(5, 0));
  run_step(after.store, after.options, 1);
  EXPECT_NE(after.store.state_hash(), whole.store.state_hash());
}

TEST(Restore, NeedsOneCountPerGroup) {
  Toy toy(toy_options());
  EXPECT_THROW(toy.store.restore(1, std::vector<std::uint64_t>(4)), Error);
}

}  // namespace
}  // namespace l2l::eps::testing
