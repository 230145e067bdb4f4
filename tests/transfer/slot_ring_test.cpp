#include "transfer/slot_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "l2l/errors.h"
#include "tests/support/fault_device.h"

namespace l2l::transfer {
namespace {

using device::BufferView;
using device::WaitReason;
using testing::FaultDevice;
using testing::FaultPlan;
using namespace std::chrono_literals;

constexpr Bytes kSlotBytes = 4096;

// A producer thread sends numbers through a ring to a consumer, which copies them out.
class Pipeline {
 public:
  explicit Pipeline(const FaultPlan& faults, int slots, int consumers = 1)
      : device_(std::make_unique<device::HostDevice>(1, 0), faults),
        memory_(device_.allocate(kSlotBytes * static_cast<Bytes>(slots), "slots")),
        ring_(device_, cut(memory_->view(), slots), consumers, WaitReason::weights, failure_),
        in_(device_.create_stream("in")),
        out_(device_.create_stream("out")) {}

  static std::vector<BufferView> cut(BufferView memory, int slots) {
    std::vector<BufferView> views;
    for (int i = 0; i < slots; ++i) views.push_back(memory.slice(static_cast<Bytes>(i) * kSlotBytes, kSlotBytes));
    return views;
  }

  // What arrives when `count` different contents are sent.
  std::vector<int> send(int count) {
    std::vector<std::vector<int>> sources, sinks;
    for (int i = 0; i < count; ++i) {
      sources.emplace_back(kSlotBytes / sizeof(int), i);
      sinks.emplace_back(kSlotBytes / sizeof(int), -1);
    }
    std::thread producer([&] {
      for (auto& source : sources) {
        const SlotRing::Slot slot = ring_.acquire(*in_);
        device_.copy(*in_, ring_.view(slot), {reinterpret_cast<std::byte*>(source.data()), kSlotBytes});
        ring_.filled(slot, *in_);
      }
    });
    for (auto& sink : sinks) {
      const SlotRing::Slot slot = ring_.take(*out_);
      device_.copy(*out_, {reinterpret_cast<std::byte*>(sink.data()), kSlotBytes}, ring_.view(slot));
      ring_.release(slot, *out_);
    }
    producer.join();
    device_.synchronize(*in_);
    device_.synchronize(*out_);
    std::vector<int> arrived;
    for (const auto& sink : sinks) arrived.push_back(sink.front() == sink.back() ? sink.front() : -2);
    return arrived;
  }

  FaultDevice& device() { return device_; }
  SlotRing& ring() { return ring_; }
  Failure& failure() { return failure_; }
  device::Stream& in() { return *in_; }
  device::Stream& out() { return *out_; }

 private:
  Failure failure_;
  FaultDevice device_;
  std::unique_ptr<device::Buffer> memory_;
  SlotRing ring_;
  std::unique_ptr<device::Stream> in_, out_;
};

FaultPlan delays(std::uint64_t seed) {
  FaultPlan plan;
  plan.seed = seed;
  plan.copy_h2d_delay = plan.copy_d2h_delay = 300us;
  return plan;
}

std::vector<int> counting(int count) {
  std::vector<int> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

TEST(SlotRing, EverythingArrivesInOrderUnderAnyDelays) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    for (const int slots : {1, 2, 3}) EXPECT_EQ(Pipeline(delays(seed), slots).send(40), counting(40)) << slots;
  }
}

// Negative control: without the consumer's wait, it reads what is not there yet.
TEST(SlotRing, SkippedWaitIsCaught) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a data race on purpose";
#endif
  FaultPlan plan = delays(1);
  plan.copy_d2h_delay = 0us;
  plan.skipped_reason = WaitReason::weights;
  plan.skip_wait = FaultPlan::kEvery;
  EXPECT_NE(Pipeline(plan, 2).send(40), counting(40));
}

// Negative control: without the producer's wait, it overwrites what is still being read.
TEST(SlotRing, SkippedWaitForReleaseIsCaught) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a data race on purpose";
#endif
  FaultPlan plan = delays(1);
  plan.copy_h2d_delay = 0us;
  plan.skipped_reason = WaitReason::order;
  plan.skip_wait = FaultPlan::kEvery;
  EXPECT_NE(Pipeline(plan, 2).send(40), counting(40));
}

TEST(SlotRing, ASlotIsFreeWhenEveryConsumerHasReleasedIt) {
  Pipeline pipeline({}, 1, /*consumers=*/2);
  SlotRing& ring = pipeline.ring();
  ring.filled(ring.acquire(pipeline.in()), pipeline.in());
  const SlotRing::Slot slot = ring.take(pipeline.out());
  ring.release(slot, pipeline.out(), 0);
  bool acquired = false;
  std::thread waiter([&] {
    ring.acquire(pipeline.in());
    acquired = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(acquired);
  ring.release(slot, pipeline.out(), 1);
  waiter.join();
  EXPECT_TRUE(acquired);
}

TEST(SlotRing, SlotsAreHandedOutInTheOrderOfTheirRelease) {
  Pipeline pipeline({}, 3);
  SlotRing& ring = pipeline.ring();
  for (int i = 0; i < 3; ++i) ring.filled(ring.acquire(pipeline.in()), pipeline.in());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ring.take(pipeline.out()), i);
  for (const int slot : {2, 0, 1}) ring.release(slot, pipeline.out());
  for (const int slot : {2, 0, 1}) EXPECT_EQ(ring.acquire(pipeline.in()), slot);
}

TEST(SlotRing, AFailureWakesBothSidesAndIsRethrown) {
  Pipeline pipeline({}, 1);
  std::thread consumer([&] { EXPECT_THROW(pipeline.ring().take(pipeline.out()), DeviceError); });
  pipeline.ring().acquire(pipeline.in());
  std::thread producer([&] { EXPECT_THROW(pipeline.ring().acquire(pipeline.in()), DeviceError); });
  std::this_thread::sleep_for(10ms);
  pipeline.failure().fail(std::make_exception_ptr(DeviceError("link down")));
  consumer.join();
  producer.join();
}

}  // namespace
}  // namespace l2l::transfer
