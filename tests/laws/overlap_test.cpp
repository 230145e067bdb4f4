// Transfers overlap with compute, and throughput over microbatches is what the cost model of the paper says. The tests
// use the paced device, so that times follow from the schedule and not from the machine. Each check allows three
// attempts, since feeder, drain and parameter server are real threads that share the machine's cores.
#include <gtest/gtest.h>

#include "core/fault_point.h"
#include "tools/bench/measured_ranks.h"
#include "tools/bench/schedule_cases.h"

namespace l2l {
namespace {

using tools::MeasuredSettings;
using tools::Measurement;
using tools::VisitKind;
using tools::VisitReport;

constexpr double kShare = 0.6;  // of compute: all bytes, both ways added up
constexpr int kWarmUp = 1, kSteps = 3, kAttempts = 3;

MeasuredSettings limited_case() {
  const MeasuredSettings settings = tools::paced_overlap_case();
  return tools::with_link_share(settings, tools::measure(settings, 1, 1), kShare);
}

// Until `good` holds of one measurement, or attempts run out; returns the last one.
template <typename Good>
Measurement measure_until(const MeasuredSettings& settings, const Good& good) {
  for (int attempt = 1;; ++attempt) {
    const Measurement measured = tools::measure(settings, kWarmUp, kSteps);
    if (attempt == kAttempts || good(measured)) return measured;
  }
}

bool overlaps(const Measurement& measured) { return measured.schedule.step_ms <= 1.10 * measured.schedule.bound_ms(); }

// The report against the table and the model's sizes, by arithmetic of its own.
TEST(ScheduleReport, SaysWhatTheTableSays) {
  const MeasuredSettings settings = limited_case();
  const Measurement measured = tools::measure(settings, kWarmUp, kSteps);
  const double bandwidth = tools::bandwidth_of(settings), blocks = 12, microbatches = 4;
  const double elements = 12 * 64 * 64 + 13 * 64;  // of a block
  const double wire = 1e3 * 4 * elements / bandwidth, item = 1e3 * 4 * 2 * 16 * 64 / bandwidth;
  for (const VisitReport& visit : measured.schedule.visits) {
    if (visit.layer == 0 || visit.layer > blocks) continue;
    const bool up = visit.kind == VisitKind::forward, top = visit.layer == blocks;
    EXPECT_NEAR(visit.times.compute, microbatches * (up ? 2 : 6), 1e-3) << visit.name;
    EXPECT_NEAR(visit.times.h2d, up ? wire : microbatches * item + (top ? 0 : wire), 1e-3) << visit.name;
    EXPECT_NEAR(visit.times.d2h, up ? (top ? 0 : microbatches * item) : wire, 1e-3) << visit.name;
    EXPECT_EQ(visit.times.update > 0, !up) << visit.name;
    EXPECT_EQ(visit.times.check, 0) << visit.name << ": the device takes the norm of a block's gradients";
  }
  const tools::VisitTimes sum = measured.schedule.sum();
  EXPECT_NEAR(sum.h2d + sum.d2h, kShare * sum.compute, 0.01 * sum.compute);  // token ids and losses apart
}

// Every millisecond of a step is either work or attributed to what was waited for.
TEST(ScheduleReport, AccountsForTheWholeStep) {
  MeasuredSettings settings = limited_case();
  for (const bool overlap : {true, false}) {
    settings.overlap = overlap;
    const auto closes = [](const Measurement& measured) {
      const tools::VisitTimes sum = measured.schedule.sum();
      const double booked = sum.compute + sum.wait_weights + sum.wait_stash + sum.wait_gradients + sum.idle;
      return std::abs(booked / measured.schedule.step_ms - 1) < 0.02;
    };
    EXPECT_TRUE(closes(measure_until(settings, closes))) << overlap;
  }
}

TEST(Overlap, AStepTakesWhatItsLongestWorkTakes) {
  const Measurement measured = measure_until(limited_case(), overlaps);
  EXPECT_TRUE(overlaps(measured)) << measured.schedule.table();
}

// Negative controls: without prefetch, or one thing at a time, transfers show in the step's time, and the report says
// where.
#ifdef L2L_FAULT_POINTS
TEST(OverlapNegativeControl, WithoutPrefetchTheLinkShows) {
  const MeasuredSettings settings = limited_case();
  const double overlapped = measure_until(settings, overlaps).schedule.step_ms;
  arm_fault_point("transfer.no_prefetch");
  const Measurement measured = tools::measure(settings, kWarmUp, kSteps);
  arm_fault_point("");
  EXPECT_FALSE(overlaps(measured));
  EXPECT_GE(measured.schedule.step_ms, 1.3 * overlapped);
  const tools::CostModel model = tools::cost_model(measured, tools::bandwidth_of(settings));
  EXPECT_GE(measured.schedule.sum().wait_weights, 0.99 * 23 * model.wire);
  EXPECT_GE(measured.schedule.sum().wait_stash, 0.99 * 48 * model.layer_input);
}
#endif

// Ranks with a network whose bytes take 0.6 of the step each way. The law is kept by a factor that leaves room for the
// threads of two ranks on the machine's cores.
class OverlapOfRanks : public ::testing::TestWithParam<const char*> {
 protected:
  static MeasuredSettings settings() {
    MeasuredSettings settings = tools::paced_overlap_case();
    settings.options.distributed.wire = GetParam();
    return settings;
  }
  MeasuredSettings settings_ = settings();
  const tools::RanksMeasurement free_ = tools::measure_ranks(settings_, 2, /*bandwidth=*/0, kWarmUp, kSteps);
  const Bytes bandwidth_ = static_cast<Bytes>(1e3 * static_cast<double>(free_.sent_bytes) / (kShare * free_.step_ms));

  bool hides(const tools::RanksMeasurement& limited) const { return limited.step_ms <= 1.10 * free_.step_ms; }
  tools::RanksMeasurement limited() const { return tools::measure_ranks(settings_, 2, bandwidth_, kWarmUp, kSteps); }
};

INSTANTIATE_TEST_SUITE_P(Wires, OverlapOfRanks, ::testing::Values("replicated", "sharded"));

TEST_P(OverlapOfRanks, TheNetworkHidesBehindCompute) {
  tools::RanksMeasurement measured;
  for (int attempt = 0; attempt < kAttempts && !hides(measured = limited()); ++attempt) {
  }
  EXPECT_TRUE(hides(measured)) << measured.step_ms << " ms, without a network " << free_.step_ms;
}

#ifdef L2L_FAULT_POINTS
// Gradients leave after the backward pass, and the next step waits for all weights; sharded ones are gathered ahead
// all the same. Measured: 1.75 and 1.31 times.
TEST_P(OverlapOfRanks, WithoutOverlapItShows) {
  settings_.options.eps.gradient_buffers = 14;  // of all layers
  settings_.overlap = false;
  arm_fault_point("eps.gradients_leave_late");
  const tools::RanksMeasurement measured = limited();
  arm_fault_point("");
  const bool gathers = settings_.options.distributed.wire == "sharded";
  EXPECT_GE(measured.step_ms, (gathers ? 1.2 : 1.5) * free_.step_ms);
}
#endif

TEST(OverlapNegativeControl, OneThingAtATimeTheLinkShows) {
  MeasuredSettings settings = limited_case();
  const double overlapped = measure_until(settings, overlaps).schedule.step_ms;
  settings.overlap = false;
  const Measurement measured = tools::measure(settings, kWarmUp, kSteps);
  EXPECT_FALSE(overlaps(measured));
  EXPECT_GE(measured.schedule.step_ms, 1.3 * overlapped);
}

class InnerLoop : public ::testing::TestWithParam<int> {
 protected:
  // A layer's wire takes as long as its forward of one microbatch.
  MeasuredSettings settings() const {
    tools::ModelSizes sizes;
    sizes.block_wire = 4 * (12 * 64 * 64 + 13 * 64);
    return tools::with_wire_time(tools::paced_inner_loop_case(GetParam()), sizes, 4.0);
  }
  double predicted_ms(const Measurement& measured) const {
    return tools::cost_model(measured, tools::bandwidth_of(settings())).step_ms(GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Microbatches, InnerLoop, ::testing::Values(1, 2, 4, 8));

TEST_P(InnerLoop, WithoutOverlapAStepTakesWhatTheCostModelSays) {
  MeasuredSettings serial = settings();
  serial.overlap = false;
  const auto agrees = [&](const Measurement& measured) {
    return std::abs(measured.schedule.step_ms / predicted_ms(measured) - 1) < 0.10;
  };
  const Measurement measured = measure_until(serial, agrees);
  EXPECT_TRUE(agrees(measured)) << measured.schedule.step_ms << " ms, predicted " << predicted_ms(measured);
  // By hand, from the table: 8 blocks, F = X = G = 4 ms, B = 12 ms; the head takes 4 ms a microbatch.
  const double u = GetParam(), item = 4.0 * (2 * 16 * 64) / (12 * 64 * 64 + 13 * 64);
  const double tied = 64 * 256, positions = 64 * 16, norm = 2 * 64;
  const double ends = 2 * 4.0 * (2 * tied + positions + norm) / (12 * 64 * 64 + 13 * 64);
  EXPECT_NEAR(predicted_ms(measured), 15 * 4 + 8 * 4 + ends + u * (8 * (16 + 2 * item) + 4), 1e-3);
}

TEST_P(InnerLoop, WithOverlapItIsNeverSlower) {
  const auto is_faster = [&](const Measurement& measured) {
    return measured.schedule.step_ms <= predicted_ms(measured);
  };
  const Measurement measured = measure_until(settings(), is_faster);
  EXPECT_TRUE(is_faster(measured)) << measured.schedule.step_ms << " ms, predicted " << predicted_ms(measured);
  // Negative control of the check above: with little compute to overlap with, the time differs from full overlap.
  if (GetParam() <= 2) {
    EXPECT_LT(measured.schedule.step_ms, 0.9 * predicted_ms(measured));
  }
}

}  // namespace
}  // namespace l2l
