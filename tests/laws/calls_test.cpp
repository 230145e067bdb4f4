// What the relay asks of a device for a block and a step: so many calls, whatever the depth and the step.
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "device/forwarding_device.h"
#include "tests/laws/small_run.h"

namespace l2l {
namespace {

using testing::SmallRun;

enum Call { kLaunches, kCopies, kRecords, kStreamWaits, kHostWaits, kCalls };
using Calls = std::array<std::int64_t, kCalls>;

Calls difference(const Calls& a, const Calls& b, std::int64_t divisor) {
  Calls result{};
  for (std::size_t i = 0; i < kCalls; ++i) {
    result[i] = (a[i] - b[i]) / divisor;
    EXPECT_EQ(a[i] - b[i], result[i] * divisor) << "call " << i << " is not made equally often";
  }
  return result;
}

// Counts calls of all threads.
class CalledDevice final : public device::ForwardingDevice {
 public:
  using Counts = std::array<std::atomic<std::int64_t>, kCalls>;
  CalledDevice(std::unique_ptr<device::Device> device, Counts& counts)
      : ForwardingDevice(std::move(device)), counts_(counts) {}

  void record(device::Event& event, device::Stream& stream) override {
    ++counts_[kRecords];
    ForwardingDevice::record(event, stream);
  }
  void wait(device::Stream& stream, device::Event& event, device::WaitReason reason) override {
    ++counts_[kStreamWaits];
    ForwardingDevice::wait(stream, event, reason);
  }
  void copy(device::Stream& stream, device::BufferView destination, device::BufferView source) override {
    ++counts_[kCopies];
    ForwardingDevice::copy(stream, destination, source);
  }
  void launch(device::Stream& stream, const device::Executable& executable, const device::Bindings& bindings,
              const device::LaunchParameters& parameters) override {
    ++counts_[kLaunches];
    ForwardingDevice::launch(stream, executable, bindings, parameters);
  }
  void synchronize(device::Event& event) override {
    ++counts_[kHostWaits];
    ForwardingDevice::synchronize(event);
  }
  void synchronize(device::Stream& stream) override {
    ++counts_[kHostWaits];
    ForwardingDevice::synchronize(stream);
  }

 private:
  Counts& counts_;
};

// Whose host waits for each launch.
class WaitingDevice final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  void launch(device::Stream& stream, const device::Executable& executable, const device::Bindings& bindings,
              const device::LaunchParameters& parameters) override {
    ForwardingDevice::launch(stream, executable, bindings, parameters);
    ForwardingDevice::synchronize(stream);
  }
};
using Wrapper = std::function<std::unique_ptr<device::Device>(std::unique_ptr<device::Device>)>;

// What reaches a device that `wrap` sits on.
Calls calls_of(const Options& options, int steps, const Wrapper& wrap) {
  CalledDevice::Counts counts{};
  testing::record_on(options, steps, [&](std::unique_ptr<device::HostDevice> device) {
    return wrap(std::make_unique<CalledDevice>(std::move(device), counts));
  });
  Calls calls{};
  for (std::size_t i = 0; i < kCalls; ++i) calls[i] = counts[i];
  return calls;
}

// Of one block in one step, in which it visits the device twice.
Calls calls_of_block(const Options& options, const Wrapper& wrap) {
  const auto of_step = [&](std::int64_t blocks) {
    Options other = options;
    other.model.layers = blocks;
    return difference(calls_of(other, 7, wrap), calls_of(other, 3, wrap), 4);
  };
  return difference(of_step(7), of_step(4), 3);
}

class CallsOfABlock : public ::testing::TestWithParam<int> {
 protected:
  Options options(const char* stash) const {
    Options options = run_.options();
    options.recompute.policy = "full";
    options.batch.micro_batch = 1;
    options.batch.micro_batches = GetParam();
    options.transfer.stash = stash;
    return options;
  }

  static std::unique_ptr<device::Device> plain(std::unique_ptr<device::Device> device) { return device; }

  const std::int64_t u_ = GetParam();
  SmallRun run_;
};
INSTANTIATE_TEST_SUITE_P(Microbatches, CallsOfABlock, ::testing::Values(1, 2, 4, 8));

// One program each for forward and backward, and one that rounds the gradients and takes their norm, whose copy is the
// fourth beside weights (twice) and gradients. The host waits for the three of these layers alone.
TEST_P(CallsOfABlock, WithTheStashOnTheDevice) {
  EXPECT_EQ(calls_of_block(options("device"), plain), (Calls{2 * u_ + 1, 4, 9, 6, 3}));
}

// Each microbatch is copied out and back, in step with compute; the host never waits for it.
TEST_P(CallsOfABlock, WithTheStashOnTheHost) {
  EXPECT_EQ(calls_of_block(options("host"), plain), (Calls{2 * u_ + 1, 4 + 2 * u_, 9 + 5 * u_, 6 + 5 * u_, 3}));
}

// Negative control: a wait of the host behind each launch shows.
TEST_P(CallsOfABlock, AnotherWaitIsNoticed) {
  const auto waiting = [](auto device) { return std::make_unique<WaitingDevice>(std::move(device)); };
  EXPECT_EQ(calls_of_block(options("device"), waiting), (Calls{2 * u_ + 1, 4, 9, 6, 3 + 2 * u_ + 1}));
}

}  // namespace
}  // namespace l2l
