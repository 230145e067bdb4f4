// Streams are FIFOs, and events order them.
#include <random>
#include <thread>

#include "core/fault_point.h"
#include "tests/conformance/device/device_test.h"

namespace l2l::device {
namespace {

class Order : public DeviceTest {};
INSTANTIATE_TEST_SUITE_P(Devices, Order, ::testing::ValuesIn(backends()), backend_name);

// One slot of device memory, filled by one stream and emptied by another, round after round with nobody waiting on the
// host. Returns how many rounds arrived damaged: 0 if every wait held.
int damaged_rounds(Device& device, int rounds, Bytes size = 256 * kKiB) {
  const auto slot = device.allocate(size, "slot");
  std::vector<std::unique_ptr<Buffer>> sources, results;
  for (int round = 0; round < rounds; ++round) {
    sources.push_back(pinned(device, size, static_cast<unsigned char>(round + 1)));
    results.push_back(pinned(device, size, 0));
  }
  const auto filler = device.create_stream("filler"), emptier = device.create_stream("emptier");
  const auto filled = device.create_event(), emptied = device.create_event();
  for (int round = 0; round < rounds; ++round) {
    const auto index = static_cast<std::size_t>(round);
    device.wait(*filler, *emptied, WaitReason::order);  // before the first record: returns at once
    device.copy(*filler, slot->view(), sources[index]->view());
    device.record(*filled, *filler);
    device.wait(*emptier, *filled, WaitReason::weights);
    device.copy(*emptier, results[index]->view(), slot->view());
    device.record(*emptied, *emptier);
  }
  device.synchronize(*emptier);
  device.synchronize(*filler);
  int damaged = 0;
  for (int round = 0; round < rounds; ++round) {
    damaged += !all(results[static_cast<std::size_t>(round)]->view(), static_cast<unsigned char>(round + 1));
  }
  return damaged;
}

TEST_P(Order, EventsOrderTwoStreamsOverManyRounds) {
  EXPECT_EQ(damaged_rounds(*device_, 60), 0);
  EXPECT_EQ(damaged_rounds(*device_, 60, 256), 0);
}

FaultPlan slow_copies(std::uint64_t seed) {
  FaultPlan plan;
  plan.seed = seed;
  plan.copy_h2d_delay = plan.copy_d2h_delay = std::chrono::milliseconds(2);
  return plan;
}

#ifdef L2L_FAULT_POINTS
TEST(OrderOnOwnThreads, EventsOrderTwoStreamsOverManyRounds) {
  arm_fault_point("stream.none_inline");
  HostDevice device(1, 0);
  EXPECT_EQ(damaged_rounds(device, 60, 256), 0);
  arm_fault_point("");
}
#endif

TEST(OrderUnderDelay, EventsHoldForManySchedules) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto device = open_fault(slow_copies(seed));
    EXPECT_EQ(damaged_rounds(*device, 20), 0) << "seed " << seed;
    EXPECT_EQ(device->counts().delays, 40);
  }
}

// Negative control: without the waits of either direction the same rounds are damaged.
TEST(OrderNegativeControl, SkippedWaitsAreNoticed) {
  L2L_SKIP_UNDER_THREAD_SANITIZER();
  for (const WaitReason reason : {WaitReason::weights, WaitReason::order}) {
    FaultPlan plan = slow_copies(1);
    plan.skipped_reason = reason;
    plan.skip_wait = FaultPlan::kEvery;
    const auto device = open_fault(plan);
    EXPECT_GT(damaged_rounds(*device, 20), 0) << static_cast<int>(reason);
    EXPECT_EQ(device->counts().skipped_waits, 20);
  }
}

TEST(OrderNegativeControl, OneSkippedWaitIsNoticed) {
  L2L_SKIP_UNDER_THREAD_SANITIZER();
  FaultPlan plan;
  plan.copy_h2d_delay = std::chrono::milliseconds(40);
  plan.skipped_reason = WaitReason::weights;
  plan.skip_wait = 2;
  const auto device = open_fault(plan);
  EXPECT_EQ(damaged_rounds(*device, 5), 1);
  EXPECT_EQ(device->counts().skipped_waits, 1);
}

// Far more commands than a queue holds; each overwrites the one before it.
TEST_P(Order, AStreamIsAFifo) {
  constexpr int kCopies = 5000;
  std::unique_ptr<Buffer> values = device_->allocate_pinned(kCopies * sizeof(int), "values");
  auto* numbers = reinterpret_cast<int*>(values->view().data);
  for (int i = 0; i < kCopies; ++i) numbers[i] = i;
  const auto cell = device_->allocate(sizeof(int), "cell");
  const auto history = pinned(*device_, kCopies * sizeof(int), 0xEE);
  const auto stream = device_->create_stream("fifo");
  const bool slow = GetParam().name == "fault_with_random_delays";
  const int copies = slow ? 200 : kCopies;
  for (int i = 0; i < copies; ++i) {
    const Bytes offset = static_cast<Bytes>(i) * sizeof(int);
    device_->copy(*stream, cell->view(), values->view().slice(offset, sizeof(int)));
    device_->copy(*stream, history->view().slice(offset, sizeof(int)), cell->view());
  }
  device_->synchronize(*stream);
  const auto* seen = reinterpret_cast<const int*>(history->view().data);
  EXPECT_TRUE(std::equal(seen, seen + copies, numbers));
}

// Copies of a few bytes and of many between pieces of memory, each on any stream, ordered by an event per piece: as if
// one followed the other.
TEST_P(Order, SchedulesOfManyStreamsGiveTheBytesOfOne) {
  constexpr std::size_t kStreams = 4, kPieces = 6;
  constexpr Bytes kSize = 96 * kKiB, kFew = 64, kMany = 64 * kKiB;
  const auto host = device_->allocate_pinned(kSize, "host");
  std::vector<std::unique_ptr<Buffer>> pieces;
  std::vector<std::unique_ptr<Event>> touched;
  std::vector<std::vector<std::byte>> expected;
  std::mt19937 random(1);
  std::vector<std::unique_ptr<Stream>> streams;
  for (std::size_t i = 0; i < kStreams; ++i) streams.push_back(device_->create_stream("stream " + std::to_string(i)));
  for (std::size_t i = 0; i < kPieces; ++i) {
    pieces.push_back(device_->allocate(kSize, "piece"));
    touched.push_back(device_->create_event());
    std::generate_n(host->view().data, kSize, [&] { return static_cast<std::byte>(random()); });
    expected.emplace_back(host->view().data, host->view().data + kSize);
    device_->copy(*streams[0], pieces[i]->view(), host->view());
    device_->synchronize(*streams[0]);
  }
  const int copies = GetParam().name == "fault_with_random_delays" ? 150 : 3000;
  for (int i = 0; i < copies; ++i) {
    Stream& stream = *streams[random() % kStreams];
    const Bytes size = random() % 4 == 0 ? kMany : kFew, from = random() % (kSize - size),
                to = random() % (kSize - size);
    const std::size_t source = random() % kPieces, result = (source + 1 + random() % (kPieces - 1)) % kPieces;
    for (const std::size_t piece : {source, result}) device_->wait(stream, *touched[piece]);
    device_->copy(stream, pieces[result]->view().slice(to, size), pieces[source]->view().slice(from, size));
    for (const std::size_t piece : {source, result}) device_->record(*touched[piece], stream);
    std::copy_n(&expected[source][from], size, &expected[result][to]);
  }
  for (std::size_t i = 0; i < kPieces; ++i) {
    device_->synchronize(*touched[i]);
    device_->copy(*streams[0], host->view(), pieces[i]->view());
    device_->synchronize(*streams[0]);
    EXPECT_TRUE(std::equal(expected[i].begin(), expected[i].end(), host->view().data)) << i;
  }
}

// A wait refers to the record before it, though the event is recorded again, elsewhere, while it is pending.
TEST_P(Order, AWaitKeepsTheRecordItSaw) {
  constexpr Bytes kSize = 8 * kMiB;
  const auto slot = device_->allocate(kSize, "slot");
  const auto ones = pinned(*device_, kSize, 1), result = pinned(*device_, kSize, 0);
  const auto writer = device_->create_stream("writer"), idle = device_->create_stream("idle"),
             reader = device_->create_stream("reader");
  const auto event = device_->create_event();
  for (int repetition = 0; repetition < 4; ++repetition) {
    device_->fill_zero(*writer, slot->view());
    device_->copy(*writer, slot->view(), ones->view());
    device_->record(*event, *writer);
    device_->wait(*reader, *event);
    device_->record(*event, *idle);
    device_->copy(*reader, result->view(), slot->view());
    device_->synchronize(*reader);
    EXPECT_TRUE(all(result->view(), 1)) << repetition;
    std::fill_n(result->view().data, kSize, std::byte{0});
    device_->synchronize(*writer);
  }
}

TEST_P(Order, AnEventWithoutARecordHoldsNobody) {
  const auto stream = device_->create_stream("stream");
  const auto event = device_->create_event();
  device_->synchronize(*event);
  device_->wait(*stream, *event);
  device_->synchronize(*stream);
}

TEST_P(Order, AStreamMayWaitForItself) {
  const auto stream = device_->create_stream("stream");
  const auto event = device_->create_event();
  const auto source = pinned(*device_, 64, 7), result = pinned(*device_, 64, 0);
  const auto slot = device_->allocate(64, "slot");
  device_->copy(*stream, slot->view(), source->view());
  device_->record(*event, *stream);
  device_->wait(*stream, *event);
  device_->copy(*stream, result->view(), slot->view());
  device_->synchronize(*stream);
  EXPECT_TRUE(all(result->view(), 7));
}

TEST_P(Order, SynchronizingAnEventWaitsForWhatIsBeforeIt) {
  constexpr Bytes kSize = 4 * kMiB;
  const auto slot = device_->allocate(kSize, "slot");
  const auto source = pinned(*device_, kSize, 9), result = pinned(*device_, kSize, 0);
  const auto stream = device_->create_stream("stream");
  const auto event = device_->create_event();
  device_->copy(*stream, slot->view(), source->view());
  device_->copy(*stream, result->view(), slot->view());
  device_->record(*event, *stream);
  device_->synchronize(*event);
  EXPECT_TRUE(all(result->view(), 9));
}

TEST_P(Order, DestroyingAStreamWaitsForItsWork) {
  constexpr Bytes kSize = 4 * kMiB;
  const auto slot = device_->allocate(kSize, "slot");
  const auto source = pinned(*device_, kSize, 9), result = pinned(*device_, kSize, 0);
  {
    const auto first = device_->create_stream("first"), second = device_->create_stream("second");
    const auto event = device_->create_event();
    device_->copy(*first, slot->view(), source->view());
    device_->record(*event, *first);
    device_->wait(*second, *event);
    device_->copy(*second, result->view(), slot->view());
  }
  EXPECT_TRUE(all(result->view(), 9));
}

// The event outlives the stream that it was recorded on.
TEST_P(Order, AnEventOfAStreamThatIsGoneHoldsNobody) {
  const auto event = device_->create_event();
  {
    const auto gone = device_->create_stream("gone");
    device_->record(*event, *gone);
  }
  const auto stream = device_->create_stream("stream");
  device_->wait(*stream, *event);
  device_->synchronize(*stream);
  device_->synchronize(*event);
}

TEST_P(Order, SeveralThreadsMayEnqueueOnOneStream) {
  constexpr int kThreads = 3, kCopies = 100;
  const auto source = pinned(*device_, 1, 5), result = pinned(*device_, kThreads * kCopies, 0);
  const auto stream = device_->create_stream("shared");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCopies; ++i) {
        device_->copy(*stream, result->view().slice(static_cast<Bytes>(t * kCopies + i), 1), source->view());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  device_->synchronize(*stream);
  EXPECT_TRUE(all(result->view(), 5));
}

}  // namespace
}  // namespace l2l::device
