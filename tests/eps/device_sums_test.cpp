// Devices that sum by themselves bring slices of one buffer: the store sees the gradients of a single device, in fp32.
#include <gtest/gtest.h>

#include <algorithm>

#include "l2l/errors.h"
#include "tests/eps/toy.h"

namespace l2l::eps::testing {
namespace {

constexpr int kSumming = 3;

StoreOptions options_of(UpdateMode update) {
  StoreOptions options = toy_options();
  options.wire = options.gradients = DType::bf16;
  options.update = update;
  options.devices = kSumming;
  options.devices_sum = true;
  options.staging_slots = 2;
  return options;
}

// Device k has the k-th of as many parts of the buffer; all have it before the first pushes.
void push_slices(ParameterStore& store, const std::vector<float>& sums, LayerIndex layer) {
  std::vector<GradientBuffer> buffers;
  for (int device = 0; device < kSumming; ++device) buffers.push_back(store.gradient_buffer(layer, device));
  for (std::size_t device = 0; device < kSumming; ++device) {
    ASSERT_EQ(buffers[device].data(), buffers[0].data());
    ASSERT_EQ(buffers[device].bytes(), sums.size() * sizeof(float));
    const std::size_t begin = device * sums.size() / kSumming, end = (device + 1) * sums.size() / kSumming;
    std::copy(sums.begin() + static_cast<std::ptrdiff_t>(begin), sums.begin() + static_cast<std::ptrdiff_t>(end),
              reinterpret_cast<float*>(buffers[device].data()) + begin);
  }
  for (const std::size_t device : {2u, 0u, 1u}) {
    store.push(layer, static_cast<int>(device), std::move(buffers[device]));
  }
}

TEST(DeviceSums, SlicesAreTheGradientsOfOneDeviceInFp32) {
  for (const UpdateMode update : {UpdateMode::eager, UpdateMode::after_backward}) {
    const StoreOptions options = options_of(update);
    StoreOptions of_one = options;
    of_one.gradients = DType::f32;
    of_one.devices = 1;
    of_one.devices_sum = false;
    TestMemory memory, memory_of_one;
    Failure failure;
    ParameterStore store(toy_layout(), options, memory, failure, nullptr);
    ParameterStore other(toy_layout(), of_one, memory_of_one, failure, nullptr);
    for (std::uint64_t step = 0; step < 3; ++step) {
      store.begin_step(step, toy_learning_rate(step));
      for (LayerIndex layer = kHead; layer >= kEmbedding; --layer) {
        push_slices(store, toy_gradient(store.layout(), layer, 0, step, DType::f32), layer);
      }
      const double norm = store.finish_step().gradient_norm;
      store.complete_updates();
      other.begin_step(step, toy_learning_rate(step));
      push_all(other, of_one, step);
      EXPECT_EQ(other.finish_step().gradient_norm, norm);
      other.complete_updates();
    }
    EXPECT_EQ(whole_state(store), whole_state(other));
    EXPECT_EQ(memory.total(), memory_of_one.total());
    EXPECT_EQ(memory.total(), ParameterStore::bytes_needed(toy_layout(), options).from_source());
    EXPECT_EQ(store.work().bytes, ParameterStore::bytes_moved(toy_layout(), options) * 3);
  }
}

TEST(DeviceSums, ADeviceBringsOneSliceOfALayerInAStep) {
  const StoreOptions options = options_of(UpdateMode::eager);
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  store.begin_step(0, toy_learning_rate(0));
  store.push(kHead, 1, store.gradient_buffer(kHead, 1));
  EXPECT_THROW(static_cast<void>(store.gradient_buffer(kHead, 1)), Error);
  EXPECT_NO_THROW(static_cast<void>(store.gradient_buffer(kHead, 0)));
}

// One that is given up may be asked for again, and the slot is free when nobody has it.
TEST(DeviceSums, ABufferThatIsGivenUpIsNotLost) {
  StoreOptions options = options_of(UpdateMode::eager);
  options.staging_slots = 1;
  TestMemory memory;
  Failure failure;
  ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  store.begin_step(0, toy_learning_rate(0));
  for (int device = 0; device < kSumming; ++device) static_cast<void>(store.gradient_buffer(kSecondBlock, device));
  const std::vector<float> sums = toy_gradient(store.layout(), kFirstBlock, 0, 0, DType::f32);
  {
    const GradientBuffer first = store.gradient_buffer(kFirstBlock, 0), second = store.gradient_buffer(kFirstBlock, 1);
  }
  push_slices(store, sums, kFirstBlock);
  EXPECT_THROW(store.push(kSecondBlock, 1, store.gradient_buffer(kSecondBlock, 0)), Error);
}

TEST(DeviceSums, OfSeveralRanksOnlySubtreesAreSummed) {
  StoreOptions options = options_of(UpdateMode::eager);
  options.rank = {0, 2};
  options.staging_slots = 4;
  TestMemory memory;
  Failure failure;
  EXPECT_THROW(ParameterStore(toy_layout(), options, memory, failure, nullptr), BadInput);
  options.devices = 4;
  EXPECT_NO_THROW(ParameterStore(toy_layout(), options, memory, failure, nullptr));
}

}  // namespace
}  // namespace l2l::eps::testing
