// Core attention and fused attention are the same model in other ops, with the same dropout masks: results agree to
// rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/laws/small_run.h"

namespace l2l {
namespace {

using testing::SmallRun;

constexpr double kTolerance = 1e-5;  // relative L2 of every gradient

void draw_minibatch(const runtime::RunPlan& plan, runtime::Engine& engine) {
  const runtime::Dataset data(*plan.options.train, plan.dataset_settings());
  const auto sequence = static_cast<std::size_t>(plan.options.model.sequence);
  std::uint64_t position = 0;
  for (int u = 0; u < engine.minibatch().microbatches(); ++u) {
    const std::span<std::int32_t> tokens = engine.minibatch().tokens(u), targets = engine.minibatch().targets(u);
    for (std::size_t row = 0; row < tokens.size(); row += sequence) {
      data.sample(position++, tokens.subspan(row, sequence), targets.subspan(row, sequence));
    }
  }
}

// By name: the first moments after one step, which are the gradients times a factor.
std::map<std::string, std::vector<float>> gradients_of(const Options& options) {
  runtime::RunPlan plan = runtime::plan_run(options);
  runtime::Engine engine(plan, nullptr);
  draw_minibatch(plan, engine);
  engine.train(0, 1e-3);
  engine.store().complete_updates();
  std::map<std::string, std::vector<float>> gradients;
  const auto& groups = plan.model.layout.groups;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t i = 0; i < groups[group].parameters.size(); ++i) {
      std::vector<float>& moment = gradients[groups[group].parameters[i].name];
      moment.resize(static_cast<std::size_t>(groups[group].parameters[i].shape.elements()));
      std::vector<float> master(moment.size()), moment2(moment.size());
      engine.store().read(static_cast<GroupIndex>(group), i, {master, moment, moment2});
    }
  }
  return gradients;
}

double norm_of(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += std::pow(static_cast<double>(value), 2);
  return std::sqrt(squares);
}

// The largest over all parameters, relative to the norm of each. Those that are zero up to rounding are left out: the
// bias of the keys shifts all scores of a row equally, which softmax ignores.
double difference(const std::map<std::string, std::vector<float>>& a,
                  const std::map<std::string, std::vector<float>>& b) {
  double largest = 0;
  for (const auto& [name, values] : a) {
    std::vector<float> between = b.at(name);
    for (std::size_t i = 0; i < between.size(); ++i) between[i] -= values[i];
    if (norm_of(values) > 1e-7) largest = std::max(largest, norm_of(between) / norm_of(values));
  }
  return largest;
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
}  // namespace l2l
