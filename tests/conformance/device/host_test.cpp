// What only the host device promises: a throttled link, stall accounts, traces.
#include <sys/mman.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/conformance/device/device_test.h"
#include "tests/support/instrumented.h"
#include "tests/support/trace_spans.h"

namespace l2l::device {
namespace {

using std::chrono::milliseconds;

Seconds since(Clock::time_point begin) { return Clock::now() - begin; }

void enqueue_delay(HostDevice& device, Stream& stream, std::chrono::milliseconds duration) {
  device.enqueue_call(stream, [duration] { std::this_thread::sleep_for(duration); });
}

struct Copies {
  int to_device = 0, to_host = 0, within = 0;
};

// Time that the host device needs for copies of 2 MB, those of each direction on two streams.
Seconds time_copies(Bytes bandwidth, Copies copies) {
  HostDevice device(1, bandwidth);
  constexpr Bytes kSize = 2'000'000;
  struct Lane {
    std::unique_ptr<Buffer> near, other, host;
    std::unique_ptr<Stream> stream;
  };
  std::vector<Lane> lanes;  // two in, two out
  for (int i = 0; i < 4; ++i) {
    lanes.push_back({device.allocate(kSize, "near"), device.allocate(kSize, "other"),
                     device.allocate_pinned(kSize, "host"), device.create_stream("copies")});
  }
  const auto copy = [&](int index, std::unique_ptr<Buffer> Lane::*to, std::unique_ptr<Buffer> Lane::*from) {
    const Lane& lane = lanes[static_cast<std::size_t>(index)];
    device.copy(*lane.stream, (lane.*to)->view(), (lane.*from)->view());
  };
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < copies.to_device; ++i) copy(i % 2, &Lane::near, &Lane::host);
  for (int i = 0; i < copies.to_host; ++i) copy(2 + i % 2, &Lane::host, &Lane::near);
  for (int i = 0; i < copies.within; ++i) copy(0, &Lane::other, &Lane::near);
  for (const Lane& lane : lanes) device.synchronize(*lane.stream);
  return since(begin);
}

// The fastest of a few attempts, so that a busy machine does not count; no attempt may take less than `least` seconds.
double fastest(double least, double enough, Bytes bandwidth, Copies copies) {
  double best = 1e9;
  for (int attempt = 0; attempt < 8 && best > enough; ++attempt) {
    const double seconds = time_copies(bandwidth, copies).count();
    EXPECT_GE(seconds, least);
    best = std::min(best, seconds);
  }
  return best;
}

// 10 x 2 MB at 100 MB/s are 0.2 s, over however many streams.
TEST(Link, BandwidthIsSharedByTheStreamsOfADirection) {
  EXPECT_LT(fastest(0.1999, 0.25, 100'000'000, {.to_device = 10}), 0.25);
  EXPECT_LT(fastest(0.1999, 0.25, 100'000'000, {.to_host = 10}), 0.25);
}

TEST(Link, TheTwoDirectionsRunSideBySide) {
  EXPECT_LT(fastest(0.1999, 0.3, 100'000'000, {.to_device = 10, .to_host = 10}), 0.3);
}

TEST(Link, CopiesWithinTheDeviceDoNotCrossIt) {
  L2L_NEEDS_TRUE_TIMES();
  EXPECT_LT(fastest(0, 0.1, 100'000'000, {.within = 10}), 0.1);
  EXPECT_LT(fastest(0, 0.1, 0, {.to_device = 10, .to_host = 10}), 0.1);
}

TEST(Stalls, IdleTimeIsBookedToTheReasonOfTheWait) {
  HostDevice device(1, 0);
  const Clock::time_point begin = Clock::now();
  const auto slow = device.create_stream("slow"), fast = device.create_stream("fast");
  const auto event = device.create_event();
  const auto stall = [&](WaitReason reason, int ms) {
    enqueue_delay(device, *slow, milliseconds(ms));
    device.record(*event, *slow);
    device.wait(*fast, *event, reason);
    device.synchronize(*fast);
  };
  stall(WaitReason::weights, 60);
  stall(WaitReason::stash, 30);
  stall(WaitReason::weights, 60);
  EXPECT_GE(fast->stalled_seconds(WaitReason::weights), 0.120);
  EXPECT_GE(fast->stalled_seconds(WaitReason::stash), 0.030);
  EXPECT_LT(fast->stalled_seconds(WaitReason::stash), 0.120);
  const double elapsed = since(begin).count();
  EXPECT_LE(fast->stalled_seconds(WaitReason::weights) + fast->stalled_seconds(WaitReason::stash), elapsed);
  EXPECT_EQ(fast->stalled_seconds(WaitReason::gradients), 0.0);
  EXPECT_EQ(fast->stalled_seconds(WaitReason::order), 0.0);
  EXPECT_EQ(slow->stalled_seconds(WaitReason::weights), 0.0);
}

TEST(Stalls, TimeAtWorkIsNotStalled) {
  HostDevice device(1, 0);
  const auto slow = device.create_stream("slow"), busy = device.create_stream("busy");
  const auto event = device.create_event();
  enqueue_delay(device, *slow, milliseconds(40));
  device.record(*event, *slow);
  enqueue_delay(device, *busy, milliseconds(120));
  device.wait(*busy, *event, WaitReason::weights);
  device.synchronize(*busy);
  EXPECT_LT(busy->stalled_seconds(WaitReason::weights), 0.03);
}

// A later record on an idle stream takes over: nobody waits for the busy one any more.
TEST(Events, AWaitIgnoresRecordsThatWereReplaced) {
  HostDevice device(1, 0);
  const auto busy = device.create_stream("busy"), idle = device.create_stream("idle"),
             waiter = device.create_stream("waiter");
  const auto event = device.create_event();
  const Clock::time_point begin = Clock::now();
  enqueue_delay(device, *busy, milliseconds(400));
  device.record(*event, *busy);
  device.record(*event, *idle);
  device.wait(*waiter, *event);
  device.synchronize(*waiter);
  EXPECT_LT(since(begin).count(), 0.3);
  device.synchronize(*busy);
  EXPECT_GE(since(begin).count(), 0.4);
}

using testing::read_spans;
using testing::TraceSpan;

TEST(Traces, HaveATrackPerStreamAndASpanPerPieceOfWork) {
  HostDevice device(1, 0);
  const auto executable = device.compile(triple(16));
  const auto early = device.create_stream("early");
  const auto memory = device.allocate(64, "memory"), scratch = device.allocate(kKiB, "scratch");
  const auto host = pinned(device, 64, 0);
  device.copy(*early, memory->view(), host->view());  // before the trace
  device.synchronize(*early);
  Trace trace(100);
  device.set_trace(&trace);
  const auto late = device.create_stream("late");
  const auto event = device.create_event();
  device.copy(*early, memory->view(), host->view());
  device.fill_zero(*early, memory->view());
  device.record(*event, *early);
  device.wait(*late, *event);
  Bindings bindings;
  bindings[compiler::Region::input] = bindings[compiler::Region::output] = memory->view();
  bindings[compiler::Region::scratch] = scratch->view();
  device.launch(*late, *executable, bindings, {.layer = 4, .microbatch = 2});
  device.copy(*late, memory->view().slice(0, 8), memory->view().slice(8, 8));
  device.copy(*late, host->view(), memory->view());
  device.synchronize(*late);
  device.set_trace(nullptr);
  device.fill_zero(*late, memory->view());
  device.synchronize(*late);

  std::vector<TraceSpan> spans = read_spans(trace);
  std::erase_if(spans, [](const TraceSpan& span) { return span.name == "wait"; });
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"early", "copy h2d"}, {"early", "zero"}, {"late", "triple"}, {"late", "copy"}, {"late", "copy d2h"}};
  ASSERT_EQ(spans.size(), expected.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(std::make_pair(spans[i].track, spans[i].name), expected[i]);
    EXPECT_GE(spans[i].begin, i == 0 ? 0 : spans[i - 1].end - 0.0015) << i;  // one after the other
    const bool launch = spans[i].name == "triple";
    EXPECT_EQ(spans[i].arguments,
              launch ? nlohmann::json({{"layer", 4}, {"microbatch", 2}}) : nlohmann::json::object());
  }
}

// What is annotated bears its layer and microbatch; what a stream stood still for is a span of its own.
TEST(Traces, BearAnnotationsAndWaits) {
  HostDevice device(1, 0);
  Trace trace(100);
  device.set_trace(&trace);
  const auto slow = device.create_stream("slow"), fast = device.create_stream("fast");
  const auto event = device.create_event();
  const auto memory = device.allocate(64, "memory");
  enqueue_delay(device, *slow, milliseconds(20));
  device.annotate(*slow, 7, -1);
  device.fill_zero(*slow, memory->view());
  device.record(*event, *slow);
  device.wait(*fast, *event, WaitReason::gradients);
  device.annotate(*fast, 3, 1);
  device.fill_zero(*fast, memory->view());
  device.synchronize(*fast);
  device.set_trace(nullptr);

  const std::vector<TraceSpan> spans = read_spans(trace);
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].arguments, nlohmann::json({{"layer", 7}}));
  EXPECT_EQ(spans[1].track, "fast");
  EXPECT_EQ(spans[1].name, "wait gradients");
  EXPECT_GE(spans[1].end - spans[1].begin, 15'000);
  EXPECT_LE(spans[1].end, spans[2].begin + 0.0015);
  EXPECT_EQ(spans[2].arguments, nlohmann::json({{"layer", 3}, {"microbatch", 1}}));
}

// Enough for two threads that touch it, and an end that is no border of anything.
TEST(HostMemory, LargeMemoryIsTouchedToItsLastPage) {
  constexpr Bytes kSize = 514 * kMiB + 5;
  HostDevice device(1, 0);
  const auto memory = device.allocate_pinned(kSize, "memory");
  const auto page = static_cast<Bytes>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident((kSize + page - 1) / page);
  ASSERT_EQ(mincore(memory->view().data, kSize, resident.data()), 0);
  EXPECT_TRUE(std::all_of(resident.begin(), resident.end(), [](unsigned char bits) { return bits & 1; }));
}

}  // namespace
}  // namespace l2l::device
