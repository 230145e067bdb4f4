// What only the paced device promises: the times of its table, to the nanosecond, whatever the machine does meanwhile.
#include <nlohmann/json.hpp>

#include <thread>

#include "device/host_tensor_group.h"
#include "tests/conformance/device/device_test.h"
#include "tests/support/trace_spans.h"

namespace l2l::device {
namespace {

using std::chrono::milliseconds;
using testing::TraceSpan;

// Long enough that a busy machine cannot keep the enqueueing thread away for as long.
constexpr Bytes kBandwidth = 10'000'000;  // to the device: 10 KB a millisecond; half as much to the host
constexpr Bytes kSize = 500'000;
constexpr double kInMs = 50, kOutMs = 100, kLaunchMs = 70, kOtherMs = 10;

class Paced : public ::testing::Test {
 protected:
  Paced() {
    device_.set_trace(&trace_);
    compute_ = device_.create_stream("compute");
    in_ = device_.create_stream("in");
    out_ = device_.create_stream("out");
  }

  void launch(Stream& stream) {
    Bindings bindings;
    bindings[compiler::Region::input] = bindings[compiler::Region::output] = small_->view();
    bindings[compiler::Region::scratch] = scratch_->view();
    device_.launch(stream, *triple_, bindings, {});
  }
  void copy_in(Stream& stream) { device_.copy(stream, memory_->view(), host_->view()); }
  void copy_out(Stream& stream) { device_.copy(stream, host_->view(), memory_->view()); }
  // All spans but waits, with times in milliseconds after the first one's begin.
  std::vector<TraceSpan> timetable() {
    std::vector<TraceSpan> spans = testing::read_spans(trace_);
    std::erase_if(spans, [](const TraceSpan& span) { return span.name.starts_with("wait"); });
    const double origin = spans.at(0).begin;
    for (TraceSpan& span : spans) {
      span.begin = (span.begin - origin) / 1000;
      span.end = (span.end - origin) / 1000;
    }
    return spans;
  }
  static void expect(const TraceSpan& span, double begin, double end) {
    EXPECT_NEAR(span.begin, begin, 1e-4) << span.track << " " << span.name;
    EXPECT_NEAR(span.end, end, 1e-4) << span.track << " " << span.name;
  }

  PacedDevice device_{{kBandwidth, kBandwidth / 2, {{"triple", milliseconds(70)}}, milliseconds(10)}};
  Trace trace_{1000};
  std::unique_ptr<Stream> compute_, in_, out_;
  const std::unique_ptr<Buffer> memory_ = device_.allocate(kSize, "memory"), small_ = device_.allocate(64, "small"),
                                scratch_ = device_.allocate(kKiB, "scratch"), host_ = pinned(device_, kSize, 1);
  const std::unique_ptr<Executable> triple_ = device_.compile(triple(16));
  const std::unique_ptr<Event> there_ = device_.create_event(), done_ = device_.create_event();
};

// Two layers in, each computed and sent out; the second one comes in while the first is computed. All is enqueued
// within a few microseconds, so only the table decides.
TEST_F(Paced, AScheduleTakesWhatItsTableSays) {
  for (int layer = 0; layer < 2; ++layer) {
    copy_in(*in_);
    device_.record(*there_, *in_);
    device_.wait(*compute_, *there_, WaitReason::weights);
    launch(*compute_);
    device_.record(*done_, *compute_);
    device_.wait(*out_, *done_);
    copy_out(*out_);
  }
  device_.synchronize(*out_);
  const std::vector<TraceSpan> spans = timetable();
  ASSERT_EQ(spans.size(), 6u);
  expect(spans[0], 0, kInMs);
  expect(spans[1], kInMs, kInMs + kLaunchMs);
  expect(spans[2], kInMs + kLaunchMs, kInMs + kLaunchMs + kOutMs);
  expect(spans[3], kInMs, 2 * kInMs);
  expect(spans[4], kInMs + kLaunchMs, kInMs + 2 * kLaunchMs);
  expect(spans[5], kInMs + kLaunchMs + kOutMs, kInMs + kLaunchMs + 2 * kOutMs);
  EXPECT_NEAR(compute_->stalled_seconds(WaitReason::stash), 0, 0);
  EXPECT_GE(compute_->stalled_seconds(WaitReason::weights), 1e-3 * kInMs);
}

TEST_F(Paced, TheStreamsOfADirectionShareTheLink) {
  copy_in(*in_);
  copy_in(*compute_);
  copy_out(*out_);
  for (Stream* stream : {in_.get(), compute_.get(), out_.get()}) device_.synchronize(*stream);
  const std::vector<TraceSpan> spans = timetable();
  ASSERT_EQ(spans.size(), 3u);
  expect(spans[0], 0, kInMs);
  expect(spans[1], kInMs, 2 * kInMs);
  EXPECT_LT(spans[2].begin, kInMs);  // the other direction is free
}

// A copy that waits for something does not hold the link while it waits.
TEST_F(Paced, TheLinkServesWhoIsReady) {
  launch(*compute_);
  device_.record(*done_, *compute_);
  device_.wait(*out_, *done_);
  copy_in(*out_);  // ready after 70 ms
  copy_in(*in_);   // ready now
  device_.synchronize(*out_);
  const std::vector<TraceSpan> spans = timetable();
  ASSERT_EQ(spans.size(), 3u);
  expect(spans[1], kLaunchMs, kLaunchMs + kInMs);
  EXPECT_LT(spans[2].begin, kLaunchMs - kInMs);
}

TEST_F(Paced, OneLaunchAtATime) {
  launch(*compute_);
  launch(*in_);
  device_.synchronize(*in_);
  const std::vector<TraceSpan> spans = timetable();
  expect(spans.at(0), 0, kLaunchMs);
  expect(spans.at(1), kLaunchMs, 2 * kLaunchMs);
}

TEST_F(Paced, ProgramsThatTheTableDoesNotNameTakeTheRest) {
  const auto other = device_.compile([] {
    compiler::Graph graph = triple(16);
    graph.name = "another";
    return graph;
  }());
  Bindings bindings;
  bindings[compiler::Region::input] = bindings[compiler::Region::output] = small_->view();
  bindings[compiler::Region::scratch] = scratch_->view();
  device_.launch(*compute_, *other, bindings, {});
  expect(timetable().at(0), 0, kOtherMs);
}

// Work begins when it is enqueued, not before; and synchronize() returns when it has ended, not before.
TEST_F(Paced, HostTimeCounts) {
  const Clock::time_point begin = Clock::now();
  launch(*compute_);
  device_.synchronize(*compute_);
  const Clock::time_point middle = Clock::now();
  EXPECT_GE(middle - begin, milliseconds(70));
  launch(*compute_);
  device_.record(*done_, *compute_);
  device_.synchronize(*done_);
  EXPECT_GE(Clock::now() - middle, milliseconds(70));
  const std::vector<TraceSpan> spans = timetable();
  EXPECT_GE(spans.at(1).begin, 1e3 * Seconds(middle - begin).count() - 0.1);
}

// A launch computes nothing: the device's memory stays what it was at first.
TEST_F(Paced, MemoryIsZeroUntilItIsWritten) {
  launch(*compute_);
  copy_out(*compute_);
  device_.synchronize(*compute_);
  EXPECT_TRUE(all(host_->view(), 0));
}

// Negative control: without the wait the launch would begin at once.
TEST_F(Paced, ASkippedWaitShows) {
  copy_in(*in_);
  device_.record(*there_, *in_);
  launch(*compute_);
  device_.synchronize(*compute_);
  EXPECT_LT(timetable().at(1).begin, kInMs);
}

// Devices over which layers are split.
class PacedGroup : public ::testing::Test {
 protected:
  static constexpr int kMembers = 3;

  struct Member {
    explicit Member(const TensorMember& member) { device.join(member); }
    PacedDevice device{{kBandwidth, 0, {{"gather", milliseconds(70)}}, milliseconds(10)}};
    Trace trace{100};
    std::unique_ptr<Stream> compute;
    std::unique_ptr<Executable> gather, triple;
    std::unique_ptr<Buffer> memory, host;
  };

  PacedGroup() {
    for (int i = 0; i < kMembers; ++i) {
      Member& member = *members_.emplace_back(std::make_unique<Member>(TensorMember{group_, i}));
      member.device.set_trace(&member.trace);
      member.compute = member.device.create_stream("compute");
      member.gather = member.device.compile(gather(i));
      member.triple = member.device.compile(device::triple(16));
      member.memory = member.device.allocate(kSize, "memory");
      member.host = pinned(member.device, kSize, 1);
    }
  }

  static compiler::Graph gather(std::int32_t index) {
    compiler::GraphBuilder builder("gather");
    const compiler::ValueId x = builder.bound(compiler::Region::input, "x", DType::f32, {2, 16});
    builder.place(builder.apply(compiler::OpKind::all_gather_rows, {x}, {.shard = {kMembers, index}}),
                  compiler::Region::output);
    return builder.finish();
  }
  static void launch(Member& member, const Executable& program) {
    Bindings bindings;
    for (const auto region : {compiler::Region::input, compiler::Region::output, compiler::Region::scratch}) {
      bindings[region] = member.memory->view();
    }
    member.device.launch(*member.compute, program, bindings, {});
  }

  const std::shared_ptr<TensorGroup> group_ = std::make_shared<HostTensorGroup>(kMembers);
  std::vector<std::unique_ptr<Member>> members_;
};

// A program in which they exchange begins on all when the last one is ready, and ends on all when its time is over; one
// without exchanges waits for nobody.
TEST_F(PacedGroup, MeetsInProgramsThatExchange) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kMembers; ++i) {
    threads.emplace_back([&member = *members_[static_cast<std::size_t>(i)], late = i == 1] {
      if (late) member.device.copy(*member.compute, member.memory->view(), member.host->view());  // 50 ms
      launch(member, *member.gather);
      launch(member, *member.triple);
      member.device.synchronize(*member.compute);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<TraceSpan> late = testing::read_spans(members_[1]->trace);
  ASSERT_EQ(late.size(), 3U);  // the copy, and both programs
  EXPECT_NEAR(late[1].begin, late[0].end, 0.1);
  for (const auto& member : members_) {
    std::vector<TraceSpan> spans = testing::read_spans(member->trace);
    const TraceSpan program = spans[spans.size() - 2];
    EXPECT_EQ(program.name, "gather");
    EXPECT_NEAR(program.end - program.begin, 1e3 * kLaunchMs, 0.1);
    EXPECT_EQ(spans.back().name, "triple");
    EXPECT_NEAR(spans.back().begin, program.end, 0.1);
  }
}

TEST_F(PacedGroup, ThatIsAbortedDoesNotWait) {
  group_->abort();
  EXPECT_THROW(launch(*members_[0], *members_[0]->gather), DeviceError);
}

// The serial device runs what is independent one after the other, in the order of enqueueing.
TEST(Serial, NothingOverlaps) {
  SerialDevice device(std::make_unique<PacedDevice>(PaceTable{kBandwidth, kBandwidth, {}, milliseconds(70)}));
  Trace trace(100);
  device.set_trace(&trace);
  const auto program = device.compile(triple(16));  // its name is in the trace
  {
    const auto first = device.create_stream("first"), second = device.create_stream("second");
    const auto memory = device.allocate(kSize, "memory"), scratch = device.allocate(kKiB, "scratch");
    const auto host = pinned(device, kSize, 0);
    Bindings bindings;
    bindings[compiler::Region::input] = bindings[compiler::Region::output] = memory->view();
    bindings[compiler::Region::scratch] = scratch->view();
    device.copy(*first, memory->view(), host->view());
    device.launch(*second, *program, bindings, {});
    device.copy(*first, host->view(), memory->view());
    device.synchronize(*second);
    device.set_trace(nullptr);
  }
  std::vector<TraceSpan> spans = testing::read_spans(trace);
  std::erase_if(spans, [](const TraceSpan& span) { return span.name.starts_with("wait"); });
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_NEAR(spans[1].begin, spans[0].end, 0.1);
  EXPECT_NEAR(spans[2].begin, spans[1].end, 0.1);
}

Clock::time_point at(int ms) { return Clock::time_point(milliseconds(ms)); }

TEST(Timeline, FillsGapsAndMovesNothing) {
  Timeline timeline;
  EXPECT_EQ(timeline.take(at(10), milliseconds(5), at(0)), at(15));  // [10, 15)
  EXPECT_EQ(timeline.take(at(20), milliseconds(5), at(0)), at(25));  // [20, 25)
  EXPECT_EQ(timeline.take(at(4), milliseconds(6), at(0)), at(10));   // [4, 10): just fits
  EXPECT_EQ(timeline.take(at(2), milliseconds(6), at(0)), at(19));   // [2, 4) and [15, 19)
  EXPECT_EQ(timeline.take(at(3), milliseconds(2), at(3)), at(26));   // [19, 20) and [25, 26)
  EXPECT_EQ(timeline.take(at(3), milliseconds(0), at(3)), at(3));
  EXPECT_EQ(timeline.take(at(40), milliseconds(1), at(40)), at(41));
}

// Against a list of milliseconds, each taken or not.
TEST(Timeline, EqualsBruteForce) {
  std::uint32_t state = 3;
  const auto draw = [&](int below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>(state >> 16) % below;
  };
  for (int round = 0; round < 50; ++round) {
    Timeline timeline;
    std::vector<bool> taken(2000);
    int now = 0;
    for (int i = 0; i < 60; ++i) {
      now += draw(3);
      const int ready = now + draw(30), duration = 1 + draw(6);
      int end = ready;
      for (int missing = duration; missing > 0; ++end) {
        if (taken[static_cast<std::size_t>(end)]) continue;
        taken[static_cast<std::size_t>(end)] = true;
        --missing;
      }
      ASSERT_EQ(timeline.take(at(ready), milliseconds(duration), at(now)), at(end)) << round << " " << i;
    }
  }
}

}  // namespace
}  // namespace l2l::device
