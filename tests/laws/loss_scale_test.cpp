// Loss scaling of fp16, through whole runs: a step whose gradients overflow changes no weight and no moment, the scale
// halves, training goes on, and the scale grows again.
#include <gtest/gtest.h>

#include <cmath>

#include "core/fault_point.h"
#include "tests/laws/small_run.h"
#include "tests/support/parameter_state.h"

namespace l2l::loss_scale_law {
namespace {

using testing::SmallRun;

constexpr int kSteps = 60;
constexpr std::int64_t kGrowth = 3;

// The scale grows so fast that it overflows again and again.
Options overflowing(const SmallRun& run) {
  Options options = run.options();
  options.precision.compute = "fp16";
  options.precision.loss_scale_growth = kGrowth;
  options.transfer.stash = "host";
  options.device.threads = options.eps.threads = 2;
  return options;
}

struct Step {
  StepReport report;
  std::uint64_t before, after;  // hashes of weights and moments
};

std::vector<Step> steps_of(const Options& options, int steps) {
  Trainer trainer(options);
  std::vector<Step> all;
  for (int i = 0; i < steps; ++i) {
    Step step;
    step.before = trainer.weights_hash();
    step.report = trainer.step();
    step.after = trainer.weights_hash();
    all.push_back(step);
  }
  return all;
}

TEST(LossScale, AnOverflowedStepChangesNothingAndHalvesTheScale) {
  const SmallRun run;
  const std::vector<Step> steps = steps_of(overflowing(run), kSteps);
  double scale = 65536;
  std::int64_t good = 0;
  int skipped = 0;
  for (const Step& step : steps) {
    EXPECT_EQ(step.report.loss_scale, scale) << step.report.step;
    EXPECT_EQ(std::isfinite(step.report.gradient_norm), !step.report.skipped);
    EXPECT_TRUE(std::isfinite(step.report.loss));
    if (step.report.skipped) {
      EXPECT_EQ(step.after, step.before) << step.report.step;
      ++skipped;
      good = 0;
      scale /= 2;
    } else {
      EXPECT_NE(step.after, step.before) << step.report.step;
      if (++good == kGrowth) {
        scale *= 2;
        good = 0;
      }
    }
  }
  EXPECT_GE(skipped, 3);  // forced, and each time the next steps were good again
  EXPECT_GE(kSteps - skipped, 2 * kSteps / 3);
  EXPECT_LT(steps.back().report.loss, steps.front().report.loss);
}

// Reading the weights between steps completes updates; otherwise they overlap with the next forward pass.
TEST(LossScale, SkippedStepsPipelineLikeOthers) {
  const SmallRun run;
  const std::vector<Step> looked = steps_of(overflowing(run), kSteps);
  for (const char* execution : {"relay", "resident"}) {
    Options options = overflowing(run);
    options.device.execution = execution;
    Trainer trainer(options);
    for (const Step& step : looked) {
      const StepReport report = trainer.step();
      EXPECT_EQ(report.loss, step.report.loss) << report.step;
      EXPECT_EQ(report.skipped, step.report.skipped) << report.step;
    }
    EXPECT_EQ(trainer.weights_hash(), looked.back().after);
  }
}

TEST(LossScale, StaysPutWithoutOverflow) {
  const SmallRun run;
  Options options = overflowing(run);
  options.precision.loss_scale = 1024;
  for (const Step& step : steps_of(options, 5)) {
    EXPECT_EQ(step.report.loss_scale, 1024);
    EXPECT_FALSE(step.report.skipped);
  }
}

TEST(LossScale, AFixedOneThatOverflowsStopsTheRun) {
  const SmallRun run;
  Options options = overflowing(run);
  options.precision.loss_scale = 16777216;
  Trainer trainer(options);
  try {
    trainer.step();
    FAIL() << "no overflow";
  } catch (const NumericError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("step 1: layer "), std::string::npos) << message;
    EXPECT_NE(message.find("16777216"), std::string::npos) << message;
  }
}

// Where no scale helps, the run stops, says why, and has changed nothing: here a weight is beyond fp16's largest
// number.
TEST(LossScale, AnOverflowThatStaysStopsTheRunAtTheLeastScale) {
  const SmallRun run;
  runtime::RunPlan plan = runtime::plan_run(overflowing(run));
  runtime::Engine engine(plan, nullptr);
  for (int u = 0; u < 3; ++u) std::fill(engine.minibatch().targets(u).begin(), engine.minibatch().targets(u).end(), 1);
  const auto size = static_cast<std::size_t>(plan.model.layout.groups[3].parameters[2].shape.elements());
  std::vector<float> master(size), moment1(size), moment2(size);
  read_state(engine.store(), 3, 2, {master, moment1, moment2});
  master[5] = 1e5f;
  write_state(engine.store(), 3, 2, {master, moment1, moment2});
  const std::uint64_t before = engine.store().state_hash();
  for (std::uint64_t step = 0; step < 16; ++step) EXPECT_TRUE(engine.train(step, 1e-3).skipped);
  EXPECT_EQ(engine.loss_scaler().scale(), 1);
  try {
    engine.train(16, 1e-3);
    FAIL() << "the overflow went unnoticed";
  } catch (const NumericError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("step 17: layer h"), std::string::npos) << message;
    EXPECT_NE(message.find("group h.1 has weights beyond 65504"), std::string::npos) << message;
  }
  EXPECT_EQ(engine.store().state_hash(), before);
}

// fp16 follows fp32 closely: the scaled gradients are those of the unscaled loss.
TEST(LossScale, TrainsLikeFp32) {
  const SmallRun run;
  Options options = overflowing(run);
  options.precision.loss_scale = 256;
  options.model.dropout = 0;
  const std::vector<Step> half = steps_of(options, 10);
  options.precision = {};
  const std::vector<Step> whole = steps_of(options, 10);
  for (std::size_t i = 0; i < half.size(); ++i) {
    EXPECT_NEAR(half[i].report.loss, whole[i].report.loss, 5e-3 * whole[i].report.loss) << i;
    EXPECT_NEAR(half[i].report.gradient_norm, whole[i].report.gradient_norm, 2e-2 * whole[i].report.gradient_norm) << i;
  }
}

#ifdef L2L_FAULT_POINTS
int changed_by_skipped_steps(const std::vector<Step>& steps) {
  int changed = 0;
  for (const Step& step : steps) changed += step.report.skipped && step.after != step.before ? 1 : 0;
  return changed;
}

TEST(LossScaleNegativeControl, AnUpdateWithOverflowedGradientsIsCaught) {
  const SmallRun run;
  arm_fault_point("eps.update_on_overflow");
  const std::vector<Step> steps = steps_of(overflowing(run), kSteps);
  arm_fault_point("");
  EXPECT_GT(changed_by_skipped_steps(steps), 0);
}

TEST(LossScaleNegativeControl, HonestRunsChangeNothing) {
  const SmallRun run;
  EXPECT_EQ(changed_by_skipped_steps(steps_of(overflowing(run), kSteps)), 0);
}
#endif

}  // namespace
}  // namespace l2l::loss_scale_law
