// What a step reports: each figure against another source of it.
#include <gtest/gtest.h>

#include "tests/laws/small_run.h"
#include "tests/support/instrumented.h"

namespace l2l::step_report {
namespace {

using testing::SmallRun;

// One step is given five windows in the order of the data, and validation the same 65 bytes: those of a separator and
// the text before them predict each.
TEST(StepReport, LossIsThatOfTheTokensThatItWasGiven) {
  const SmallRun run;
  Options options = run.options("llama");
  const std::string text = "What a step is given: windows of thirteen tokens, and no more than five of them.";
  const auto write = [&](const char* name, std::size_t bytes) {
    std::ofstream(run.folder() / name) << text.substr(0, bytes);
    return (run.folder() / name).string();
  };
  options.data.train = {write("trained", 77)};  // twelve bytes more than the windows of an epoch need
  options.data.validation = {write("validated", 65)};
  options.data.order = "sequential";
  for (const BatchOptions& batch :
       {BatchOptions{.micro_batch = 5, .micro_batches = 1}, BatchOptions{.micro_batch = 1, .micro_batches = 5}}) {
    options.batch = batch;
    Trainer trainer(options);
    const Evaluation whole = trainer.evaluate().value();
    EXPECT_EQ(whole.tokens, 65);
    const StepReport report = trainer.step();
    EXPECT_NEAR(report.loss, whole.loss, 1e-6);
    EXPECT_EQ(report.tokens, 65);
    EXPECT_EQ(report.step, 1);
  }
}

TEST(StepReport, NormsOfLayersMakeUpThatOfAll) {
  const SmallRun run;
  for (const char* const clip : {"none", "global"}) {
    Options options = run.options();
    options.optimizer.clip = clip;
    Trainer trainer(options);
    EXPECT_TRUE(trainer.gradient_norms().empty());
    for (int i = 0; i < 2; ++i) {
      const StepReport report = trainer.step();
      double squares = 0;
      for (const GradientNorm& layer : trainer.gradient_norms()) {
        EXPECT_GT(layer.norm, 0) << layer.layer;
        squares += layer.norm * layer.norm;
      }
      EXPECT_NEAR(std::sqrt(squares), report.gradient_norm, 1e-12 * report.gradient_norm) << clip;
    }
  }
  Options options = run.options();
  options.optimizer.train = {"h.1.*"};
  Trainer trainer(options);
  const double norm = trainer.step().gradient_norm;
  for (const GradientNorm& layer : trainer.gradient_norms()) {
    EXPECT_EQ(layer.norm, layer.layer == "h.1" ? norm : 0) << layer.layer;
  }
}

TEST(StepReport, BytesAreThoseOfTheLinkAndRatesThoseOfTheSchedule) {
  const SmallRun run;
  Options options = run.options();
  options.schedule = {.kind = "linear", .warmup_steps = 3, .minimum = 1e-4};
  options.run.steps = 7;
  Trainer trainer(options);
  trainer.prepare();
  LinkCounters before = trainer.link_counters();
  double last = 0;
  for (int step = 1; step <= 7; ++step) {
    const StepReport report = trainer.step();
    const LinkCounters after = trainer.link_counters();
    EXPECT_EQ(report.step, step);
    EXPECT_EQ(report.h2d_bytes, after.h2d() - before.h2d());
    EXPECT_EQ(report.d2h_bytes, after.d2h() - before.d2h());
    EXPECT_GT(report.d2h_bytes, 0u);
    before = after;
    // It rises to its peak in three steps, and falls from there to the minimum.
    EXPECT_EQ(report.learning_rate > last, step <= 3) << "step " << step;
    if (step == 3) {
      EXPECT_DOUBLE_EQ(report.learning_rate, options.optimizer.learning_rate);
    }
    last = report.learning_rate;
    EXPECT_GE(report.learning_rate, 1e-4);
    EXPECT_EQ(report.tokens, 6 * 13);
    EXPECT_NEAR(report.tokens_per_second * report.step_ms / 1e3, 6 * 13, 1e-6);
    EXPECT_GT(report.eps_gb_per_second, 0);
    EXPECT_EQ(report.device_peak_bytes, trainer.device_peak_bytes());
    EXPECT_GT(report.host_bytes, 1u << 20);
  }
}

// A link so slow that it takes most of the step is waited for, and no longer than the step takes.
TEST(StepReport, StallsLieWithinTheStep) {
  const SmallRun run;
  Options options = run.options();
  options.transfer.link_bandwidth = 1'000'000;
  options.transfer.stash = "device";
  Trainer trainer(options);
  trainer.step();
  const StepReport report = trainer.step();
  EXPECT_LT(report.weight_stall_ms, report.step_ms);
  EXPECT_GE(report.stash_stall_ms, 0);
  EXPECT_LT(report.stash_stall_ms, report.step_ms);
  EXPECT_GE(report.update_stall_ms, 0);
  EXPECT_LT(report.update_stall_ms, report.step_ms);
  L2L_NEEDS_TRUE_TIMES();
  EXPECT_GT(report.weight_stall_ms, 0.35 * report.step_ms)
      << "half of it is about the weights', the rest the gradients'";
}

}  // namespace
}  // namespace l2l::step_report
