// A failure on a stream is stored and rethrown; nothing hangs and nothing is done after it (law 8).
#include "l2l/errors.h"
#include "tests/conformance/device/device_test.h"
#include "tests/support/poison.h"

namespace l2l::device {
namespace {

FaultPlan failing_copy(std::int64_t index) {
  FaultPlan plan;
  plan.fail_copy = index;
  return plan;
}

TEST(DeviceFailure, IsRethrownByEverySynchronize) {
  const auto device = open_fault(failing_copy(0));
  const auto first = device->create_stream("first"), second = device->create_stream("second");
  const auto event = device->create_event();
  const auto memory = device->allocate(64, "memory"), host = device->allocate_pinned(64, "host");
  EXPECT_NO_THROW(device->copy(*first, memory->view(), host->view()));  // fails on the stream, not here
  device->record(*event, *first);
  device->wait(*second, *event);
  EXPECT_THROW(device->synchronize(*event), DeviceError);
  EXPECT_THROW(device->synchronize(*first), DeviceError);
  EXPECT_THROW(device->synchronize(*second), DeviceError);
  EXPECT_THROW(device->synchronize(*second), DeviceError);
}

TEST(DeviceFailure, LaterWorkIsSkippedOnEveryStream) {
  const auto device = open_fault(failing_copy(1));
  const auto first = device->create_stream("first"), second = device->create_stream("second");
  const auto event = device->create_event();
  const auto ones = pinned(*device, 64, 1), early = pinned(*device, 64, 0), late = pinned(*device, 64, 0);
  device->copy(*first, early->view(), ones->view());
  device->copy(*first, late->view(), ones->view());
  device->record(*event, *first);
  device->wait(*second, *event);
  device->copy(*second, late->view(), ones->view());
  device->fill_zero(*second, ones->view());
  EXPECT_THROW(device->synchronize(*second), DeviceError);
  EXPECT_TRUE(all(early->view(), 1));
  EXPECT_TRUE(all(late->view(), 0));
  EXPECT_TRUE(all(ones->view(), 1));
}

// Two streams that wait for each other round after round, more commands than their queues hold.
TEST(DeviceFailure, StreamsThatWaitForEachOtherDrain) {
  const auto device = open_fault(failing_copy(100));
  const auto first = device->create_stream("first"), second = device->create_stream("second");
  const auto there = device->create_event(), back = device->create_event();
  const auto memory = device->allocate(64, "memory"), host = device->allocate_pinned(64, "host");
  for (int i = 0; i < 3000; ++i) {
    device->wait(*first, *back);
    device->copy(*first, memory->view(), host->view());
    device->record(*there, *first);
    device->wait(*second, *there);
    device->copy(*second, host->view(), memory->view());
    device->record(*back, *second);
  }
  EXPECT_THROW(device->synchronize(*back), DeviceError);
}

TEST(DeviceFailure, OfALaunchIsStoredToo) {
  FaultPlan plan;
  plan.fail_launch = 0;
  const auto device = open_fault(plan);
  const auto executable = device->compile(triple(16));
  const auto stream = device->create_stream("compute");
  const auto memory = device->allocate(64, "memory"), scratch = device->allocate(kKiB, "scratch");
  Bindings bindings;
  bindings[compiler::Region::input] = bindings[compiler::Region::output] = memory->view();
  bindings[compiler::Region::scratch] = scratch->view();
  device->launch(*stream, *executable, bindings, {});
  EXPECT_THROW(device->synchronize(*stream), DeviceError);
}

TEST(FaultPlans, ThePlannedAllocationFails) {
  FaultPlan plan;
  plan.fail_allocation = 1;
  const auto device = open_fault(plan);
  const auto first = device->allocate(10, "first");
  EXPECT_THROW(device->allocate_pinned(10, "second"), OutOfMemory);
  EXPECT_NO_THROW(device->allocate(10, "third"));
  EXPECT_EQ(device->counts().failures, 1);
  device->set_plan({});
  EXPECT_NO_THROW(device->allocate(10, "fourth"));
  EXPECT_EQ(device->counts().failures, 0);
}

// Doubling in place three times, microbatch 1 dropped: its event completes, its work is missing.
TEST(FaultPlans, ADroppedLaunchLeavesTheRestAlone) {
  FaultPlan plan;
  plan.drop_program = "triple";
  plan.drop_microbatch = 1;
  const auto device = open_fault(plan);
  const auto executable = device->compile(triple(16));
  const auto stream = device->create_stream("compute");
  const auto memory = device->allocate(3 * 64, "memory"), scratch = device->allocate(kKiB, "scratch");
  const auto host = pinned(*device, 3 * 64, 0);
  auto* values = reinterpret_cast<float*>(host->view().data);
  std::fill_n(values, 48, 1.0f);
  device->copy(*stream, memory->view(), host->view());
  for (std::uint32_t u = 0; u < 3; ++u) {
    Bindings bindings;
    bindings[compiler::Region::input] = bindings[compiler::Region::output] = memory->view().slice(u * 64, 64);
    bindings[compiler::Region::scratch] = scratch->view();
    device->launch(*stream, *executable, bindings, {.microbatch = u});
  }
  device->copy(*stream, host->view(), memory->view());
  device->synchronize(*stream);
  EXPECT_EQ(values[0], 3.0f);
  EXPECT_EQ(values[16], 1.0f);
  EXPECT_EQ(values[32], 3.0f);
  EXPECT_EQ(device->counts().dropped_launches, 1);
}

TEST(FaultPlans, DelaysPassOnTheStreamAndNotOnTheCaller) {
  FaultPlan plan;
  plan.copy_h2d_delay = std::chrono::milliseconds(20);
  const auto device = open_fault(plan);
  const auto stream = device->create_stream("stream");
  const auto memory = device->allocate(64, "memory"), host = device->allocate_pinned(64, "host");
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < 30; ++i) device->copy(*stream, memory->view(), host->view());
  const Seconds enqueued = Clock::now() - begin;
  device->synchronize(*stream);
  const Seconds done = Clock::now() - begin;
  EXPECT_GT(done.count(), 0.15);  // the sum of 30 draws from [0, 20] ms: 300 +- 32 ms
  EXPECT_LT(enqueued.count(), done.count() / 2);
}

TEST(FaultPlans, PoisonFillsNewDeviceMemory) {
  FaultPlan plan;
  plan.poison = true;
  const auto device = open_fault(plan);
  const auto stream = device->create_stream("stream");
  const auto memory = device->allocate(5000, "memory"), host = device->allocate_pinned(5000, "host");
  EXPECT_TRUE(all(host->view(), 0));
  device->copy(*stream, host->view(), memory->view());
  device->synchronize(*stream);
  EXPECT_TRUE(all(host->view(), 0xFF));
}

class BorrowedBuffer : public Buffer {
 public:
  explicit BorrowedBuffer(std::vector<std::byte>& memory) : Buffer({memory.data(), memory.size()}) {}
};

TEST(FaultPlans, PoisonFillsFreedMemory) {
  std::vector<std::byte> memory(100);
  std::unique_ptr<Buffer> buffer = testing::poisoned(std::make_unique<BorrowedBuffer>(memory));
  std::fill(memory.begin(), memory.end(), std::byte{1});
  buffer.reset();
  EXPECT_TRUE(all({memory.data(), memory.size()}, 0xFF));
}

}  // namespace
}  // namespace l2l::device
