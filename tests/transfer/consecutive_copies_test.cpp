// Copies of consecutive layers are enqueued without waiting for each other, in both directions: while the device stands
// still, the host has given it one more than the one it waits for.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <future>
#include <thread>

#include "device/host/host_device.h"
#include "tests/eps/toy.h"
#include "transfer/gradient_drain.h"
#include "transfer/weight_stream.h"

namespace l2l::transfer {
namespace {

using device::BufferView;
using namespace eps::testing;
using namespace std::chrono_literals;

// 200 ms for the weights of a block: time enough for this thread to do what the relay does meanwhile.
constexpr Bytes kBandwidth = 400'000;

// A device whose compute stream stands still until it is let go.
class StandingDevice : public ::testing::Test {
 protected:
  StandingDevice() {
    device_.enqueue_call(*compute_, [gate = gate_.get_future().share()] { gate.wait(); });
  }
  ~StandingDevice() override {
    if (!open_) let_go();
    link_.quiesce(*compute_);
  }

  void let_go() {
    gate_.set_value();
    open_ = true;
  }

  std::vector<BufferView> slots(std::size_t count) {
    std::vector<BufferView> views;
    for (std::size_t i = 0; i < count; ++i) {
      memory_.push_back(device_.allocate(room_, "a slot"));
      views.push_back(memory_.back()->view());
    }
    return views;
  }
  std::vector<Bytes> sizes() const {
    std::vector<Bytes> sizes;
    for (const LayerSpec& layer : store_.layout().layers) sizes.push_back(bytes_of(layer));
    return sizes;
  }
  Bytes bytes_of(LayerIndex layer) const { return bytes_of(store_.layout().layers[static_cast<std::size_t>(layer)]); }
  static Bytes bytes_of(const LayerSpec& layer) { return static_cast<Bytes>(layer.elements) * sizeof(float); }

  // Whether `count()` comes to `expected`.
  template <typename Count>
  static bool comes_to(Bytes expected, const Count& count) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (count() < expected && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(1ms);
    return count() == expected;
  }

  const eps::StoreOptions options_ = toy_options();
  TestMemory host_memory_;
  Failure failure_;
  eps::ParameterStore store_{toy_layout(), options_, host_memory_, failure_, nullptr};
  const Bytes room_ = drained_bytes(bytes_of(kFirstBlock));
  device::HostDevice device_{1, kBandwidth};
  Link link_{device_};
  std::unique_ptr<device::Stream> compute_ = device_.create_stream("compute");
  std::vector<std::unique_ptr<device::Buffer>> memory_;
  std::promise<void> gate_;
  bool open_ = false;
};

TEST_F(StandingDevice, IsGivenTheWeightsOfTheNextLayer) {
  WeightStream weights(link_, store_, slots(2), std::vector<BufferView>(4), sizes(), failure_);
  const std::vector<LayerIndex> visits{kFirstBlock, kSecondBlock, kFirstBlock, kSecondBlock};
  weights.begin_pass(visits, 0, PassOf::all_devices);
  for (int i = 0; i < 2; ++i) weights.release(weights.next(*compute_), *compute_);
  // Both slots come free when the device goes on: neither of the last two copies can be done before.
  EXPECT_TRUE(comes_to(4 * bytes_of(kFirstBlock), [&] { return link_.h2d(Traffic::weights); }))
      << link_.h2d(Traffic::weights);
  let_go();
  for (int i = 2; i < 4; ++i) {
    const WeightStream::Visit visit = weights.next(*compute_);
    device_.synchronize(*compute_);
    const std::vector<std::byte> expected = leased_bytes(store_.pull(visit.layer, 0));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), visit.wire.data)) << visit.layer;
    weights.release(visit, *compute_);
  }
  weights.stop();
}

TEST_F(StandingDevice, IsGivenTheGradientsOfTheNextLayer) {
  std::vector<GradientSlices> gradients;
  for (const LayerSpec& layer : store_.layout().layers) gradients.push_back({layer.elements, DType::f32, 1});
  double squares[kDrainCopies] = {};
  GradientDrain drain(link_, store_, slots(3), {reinterpret_cast<std::byte*>(squares), sizeof squares},
                      std::move(gradients), failure_);
  store_.begin_step(0, toy_learning_rate(0));
  std::vector<std::vector<float>> values;
  const auto differentiate = [&](LayerIndex layer) {
    std::vector<float>& own = values.emplace_back(toy_gradient(store_.layout(), layer, 0, 0, DType::f32));
    double sum = 0;
    for (const float value : own) sum += std::isnan(value) ? 0 : static_cast<double>(value) * value;
    const Bytes bytes = bytes_of(layer);
    own.resize(drained_bytes(bytes) / sizeof(float));
    std::memcpy(reinterpret_cast<std::byte*>(own.data()) + squares_offset(bytes), &sum, sizeof sum);
    const BufferView slot = drain.acquire(layer, *compute_);
    device_.copy(*compute_, slot, {reinterpret_cast<std::byte*>(own.data()), slot.size});
    drain.drain(*compute_);
  };
  for (const LayerIndex layer : {kHead, kSecondBlock, kFirstBlock}) differentiate(layer);
  EXPECT_TRUE(comes_to(bytes_of(kHead) + bytes_of(kSecondBlock), [&] { return link_.d2h(Traffic::gradients); }))
      << link_.d2h(Traffic::gradients);
  let_go();
  differentiate(kEmbedding);
  store_.finish_step();
  store_.complete_updates();
  drain.stop();

  TestMemory memory;
  eps::ParameterStore expected(toy_layout(), options_, memory, failure_, nullptr);
  run_step(expected, options_, 0);
  EXPECT_EQ(whole_state(store_), whole_state(expected));
}

}  // namespace
}  // namespace l2l::transfer
