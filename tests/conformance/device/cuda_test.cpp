// What only CUDA devices promise: graphs with the same bits, traces and stalls from events, staged copies.
#include <nlohmann/json.hpp>

#include "l2l/errors.h"
#include "tests/conformance/device/device_test.h"
#include "tests/support/trace_spans.h"

namespace l2l::device {
namespace {

using testing::read_spans;
using testing::TraceSpan;

class Cuda : public DeviceTest {
 protected:
  Bindings bind(const Buffer& input, const Buffer& output, const Buffer& scratch) {
    Bindings bindings;
    bindings[compiler::Region::input] = input.view();
    bindings[compiler::Region::output] = output.view();
    bindings[compiler::Region::scratch] = scratch.view();
    return bindings;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Cuda, ::testing::ValuesIn(backends()), backend_name);

TEST_P(Cuda, MemoryIsNotTheHosts) { EXPECT_FALSE(device_->uses_host_memory()); }

TEST_P(Cuda, TracesHaveASpanPerPieceOfWork) {
  const auto executable = device_->compile(triple(16));
  const auto early = device_->create_stream("early");
  const auto memory = device_->allocate(64, "memory"), scratch = device_->allocate(kKiB, "scratch");
  const auto host = pinned(*device_, 64, 0);
  device_->copy(*early, memory->view(), host->view());  // before the trace
  device_->synchronize(*early);
  Trace trace(100);
  device_->set_trace(&trace);
  const Clock::time_point begin = Clock::now();
  const auto late = device_->create_stream("late");
  const auto event = device_->create_event();
  device_->copy(*early, memory->view(), host->view());
  device_->fill_zero(*early, memory->view());
  device_->record(*event, *early);
  device_->wait(*late, *event);
  device_->launch(*late, *executable, bind(*memory, *memory, *scratch), {.layer = 4, .microbatch = 2});
  device_->annotate(*late, 7, -1);
  device_->copy(*late, memory->view().slice(0, 8), memory->view().slice(8, 8));
  device_->copy(*late, host->view(), memory->view());
  device_->synchronize(*late);
  const double elapsed = 1e6 * Seconds(Clock::now() - begin).count();
  device_->set_trace(nullptr);
  device_->fill_zero(*late, memory->view());
  device_->synchronize(*late);

  std::vector<TraceSpan> spans = read_spans(trace);
  std::erase_if(spans, [](const TraceSpan& span) { return span.name.starts_with("wait"); });
  std::stable_sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) { return a.track < b.track; });
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"early", "copy h2d"}, {"early", "zero"}, {"late", "triple"}, {"late", "copy"}, {"late", "copy d2h"}};
  ASSERT_EQ(spans.size(), expected.size());
  constexpr double kSlack = 200;  // us: the two clocks are aligned by one wait
  for (std::size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(std::make_pair(spans[i].track, spans[i].name), expected[i]);
    EXPECT_LE(spans[i].begin, spans[i].end);
    EXPECT_GE(spans[i].begin, i == 0 ? -kSlack : spans[i - 1].end - 5) << i;  // one after the other
    EXPECT_LE(spans[i].end, elapsed + 1e6 * 0.5) << i;
  }
  EXPECT_EQ(spans[2].arguments, nlohmann::json({{"layer", 4}, {"microbatch", 2}}));
  EXPECT_EQ(spans[3].arguments, nlohmann::json({{"layer", 7}}));
}

// Their launch parameters lie in memory that was taken when the device was opened.
TEST_P(Cuda, StreamsAreBoundedAtATimeAndNotInAll) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 64; ++i) streams.push_back(device_->create_stream("stream"));
  try {
    device_->create_stream("one more");
    FAIL() << "65 streams";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("at most 64 streams"), std::string::npos) << error.what();
  }
  for (int i = 0; i < 100; ++i) {
    streams.pop_back();
    EXPECT_NO_THROW(streams.push_back(device_->create_stream("another")));
  }
  EXPECT_EQ(device_->peak_bytes(), 0u);
}

// A stream that waits for a long copy of another stands still for it; the other one does not.
TEST_P(Cuda, StallsAreBookedToTheReasonOfTheWait) {
  constexpr Bytes kSize = 64 * kMiB;
  const Clock::time_point begin = Clock::now();
  const auto busy = device_->create_stream("busy"), idle = device_->create_stream("idle");
  const auto event = device_->create_event();
  const auto host = pinned(*device_, kSize, 1);
  const auto memory = device_->allocate(kSize, "memory");
  for (int i = 0; i < 4; ++i) device_->copy(*busy, memory->view(), host->view());
  device_->record(*event, *busy);
  device_->wait(*idle, *event, WaitReason::weights);
  device_->synchronize(*idle);
  const double elapsed = Seconds(Clock::now() - begin).count();
  EXPECT_GT(idle->stalled_seconds(WaitReason::weights), 0.0);
  EXPECT_LE(idle->stalled_seconds(WaitReason::weights), elapsed + 1e-3);
  for (const WaitReason other : {WaitReason::order, WaitReason::stash, WaitReason::gradients}) {
    EXPECT_EQ(idle->stalled_seconds(other), 0.0);
  }
  EXPECT_EQ(busy->stalled_seconds(WaitReason::weights), 0.0);
}

// More marks of time than a stream keeps, with nobody reading them meanwhile.
TEST_P(Cuda, LongTracesLoseNothing) {
  constexpr int kCopies = 3000;
  const auto stream = device_->create_stream("stream");
  const auto host = pinned(*device_, 64, 1);
  const auto memory = device_->allocate(64, "memory");
  Trace trace(3 * kCopies);
  device_->set_trace(&trace);
  for (int i = 0; i < kCopies; ++i) device_->copy(*stream, memory->view(), host->view());
  device_->synchronize(*stream);
  device_->set_trace(nullptr);
  std::vector<Trace::Span> spans = trace.spans();
  std::erase_if(spans, [](const Trace::Span& span) { return span.name.starts_with("wait"); });
  EXPECT_EQ(spans.size(), static_cast<std::size_t>(kCopies));
  EXPECT_EQ(trace.dropped(), 0u);
}

// Larger than the ring of page-locked buffers, at odd borders, both ways at once.
TEST_P(Cuda, LargeCopiesKeepEveryByte) {
  constexpr Bytes kSize = 33 * kMiB + 7;
  const auto in = device_->create_stream("in"), out = device_->create_stream("out");
  const auto event = device_->create_event();
  const auto source = device_->allocate_pinned(kSize, "source"), result = pinned(*device_, kSize, 0);
  const auto memory = device_->allocate(kSize, "memory");
  for (Bytes i = 0; i < kSize; ++i) source->view().data[i] = static_cast<std::byte>(i * 13 + i / 509);
  device_->copy(*in, memory->view(), source->view());
  device_->record(*event, *in);
  device_->wait(*out, *event);
  device_->copy(*out, result->view(), memory->view());
  // What comes back is sent again: the copy may not read it before.
  device_->fill_zero(*out, memory->view());
  device_->copy(*out, memory->view(), result->view());
  device_->copy(*out, result->view(), memory->view());
  device_->synchronize(*out);
  EXPECT_TRUE(std::equal(source->view().data, source->view().data + kSize, result->view().data));
}

// A launch with the same memory replays its graph; other memory gets another one, and both see what is there now.
TEST_P(Cuda, ReplaysSeeWhatMemoryHoldsNow) {
  constexpr std::int64_t kElements = 1000;
  constexpr Bytes kSize = kElements * sizeof(float);
  const auto executable = device_->compile(triple(kElements));
  const auto a = device_->allocate(kSize, "a"), b = device_->allocate(kSize, "b");
  const auto scratch = device_->allocate(executable->program().scratch_bytes, "scratch");
  const auto host = pinned(*device_, kSize, 0);
  auto* values = reinterpret_cast<float*>(host->view().data);
  const auto stream = device_->create_stream("compute");
  for (int round = 1; round <= 5; ++round) {
    std::fill_n(values, kElements, static_cast<float>(round));
    device_->copy(*stream, a->view(), host->view());
    device_->launch(*stream, *executable, bind(*a, *b, *scratch), {});
    device_->launch(*stream, *executable, bind(*b, *a, *scratch), {});
    device_->copy(*stream, host->view(), a->view());
    device_->synchronize(*stream);
    ASSERT_EQ(values[0], 9.0f * static_cast<float>(round));
    ASSERT_EQ(values[kElements - 1], 9.0f * static_cast<float>(round));
  }
}

// The copy is larger than what was allocated, so the driver refuses it: the failure is stored with what was enqueued,
// and nothing hangs.
TEST_P(Cuda, AFailureIsStoredAndSaysWhatFailed) {
  const auto first = device_->create_stream("first"), second = device_->create_stream("second");
  const auto event = device_->create_event();
  const auto memory = device_->allocate(64, "memory");
  const auto host = pinned(*device_, 64 * kMiB, 1), late = pinned(*device_, 64, 0);
  EXPECT_NO_THROW(device_->copy(*first, BufferView{memory->view().data, 64 * kMiB}, host->view()));
  device_->record(*event, *first);
  device_->wait(*second, *event);
  device_->copy(*second, late->view(), host->view().slice(0, 64));
  for (int i = 0; i < 2; ++i) {
    try {
      device_->synchronize(*second);
      FAIL() << "no failure";
    } catch (const DeviceError& error) {
      EXPECT_NE(std::string(error.what()).find("first"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("copy"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(device_->synchronize(*event), DeviceError);
  EXPECT_THROW(device_->synchronize(*first), DeviceError);
  EXPECT_TRUE(all(late->view(), 0));
}

}  // namespace
}  // namespace l2l::device
