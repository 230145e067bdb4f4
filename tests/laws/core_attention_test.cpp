// Core attention and fused attention are the same model in other ops, with the same dropout masks: results agree to
// rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/laws/gradients.h"
#include "tests/laws/small_run.h"

namespace l2l::core_attention_law {
namespace {

using testing::difference;
using testing::SmallRun;

constexpr double kTolerance = 1e-5;  // relative L2 of every gradient

void draw_minibatch(const runtime::RunPlan& plan, runtime::Engine& engine) {
  const runtime::Dataset data(plan.options.train[0], runtime::dataset_settings(plan.options));
  for (int i = 0; i < engine.minibatch().sequences(); ++i) {
    data.sample(static_cast<std::uint64_t>(i), engine.minibatch().sequence(i));
  }
}

testing::Gradients gradients_of(const Options& options) {
  runtime::RunPlan plan = runtime::plan_run(options);
  runtime::Engine engine(plan, nullptr);
  draw_minibatch(plan, engine);
  return testing::gradients_of(plan, engine);
}

class CoreAttention : public ::testing::TestWithParam<const char*> {
 protected:
  Options options(const std::string& attention, const std::string& compute = "fp32") const {
    Options options = run_.options(GetParam());
    options.model.attention = attention;
    options.precision.compute = compute;
    return options;
  }
  SmallRun run_;
};

TEST_P(CoreAttention, HasTheGradientsOfFusedAttention) {
  Options fused = options("fused"), core = options("core");
  const auto gradients = gradients_of(fused);
  EXPECT_LE(difference(gradients_of(core), gradients), kTolerance);
  EXPECT_NE(gradients_of(core), gradients) << "the same program";
  // The comparison is sharp: one dropped element in a thousand that differs fails it.
  if (fused.model.dropout == 0) return;
  fused.model.dropout = core.model.dropout = 0;
  const auto without = gradients_of(fused);
  EXPECT_LE(difference(gradients_of(core), without), kTolerance);
  core.model.dropout = 1e-3;
  EXPECT_GT(difference(gradients_of(core), without), kTolerance);
}

// In 16 bits the probabilities are rounded, which those of fused attention are not.
TEST_P(CoreAttention, TrainsInSixteenBits) {
  for (const char* const compute : {"bf16", "fp16"}) {
    Trainer core(options("core", compute)), fused(options("fused", compute));
    const testing::Record ours = testing::record_of(core, 20), theirs = testing::record_of(fused, 20);
    EXPECT_LT(ours.losses.back(), ours.losses.front());
    for (std::size_t step = 0; step < ours.losses.size(); ++step) {
      EXPECT_NEAR(ours.losses[step], theirs.losses[step], 2e-2 * theirs.losses[step]) << compute << ", step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CoreAttention, ::testing::Values("gpt2", "bert", "llama"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace l2l::core_attention_law
