// Training against independent models in PyTorch, a GPT-2 of our own (tests/fixtures/make_gpt2_fixture.py) and Hugging
// Face's BERT and Llama (make_family_fixtures.py): every gradient of the first step, and the losses of ten steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/engine.h"
#include "tests/laws/small_run.h"
#include "tests/support/fixture.h"
#include "tests/support/parameter_state.h"

namespace l2l {
namespace {

constexpr double kTolerance = 1e-5;  // relative L2 for gradients, relative for losses
constexpr int kSteps = 10;

ModelOptions model_of(const std::string& family) {
  if (family == "gpt2") {
    return {.layers = 3, .hidden = 32, .heads = 4, .vocabulary = 64, .sequence = 16, .dropout = 0};
  }
  ModelOptions model{.architecture = family, .layers = 2, .hidden = 32, .heads = 4, .sequence = 16, .dropout = 0};
  const bool bert = family == "bert";
  model.kv_heads = bert ? 0 : 2;
  model.intermediate = bert ? 64 : 48;
  model.vocabulary = bert ? 72 : 64;
  model.tie_embeddings = bert;
  return model;
}

Options fixture_options(const testing::SmallRun& run, const std::string& family) {
  Options options = run.options();
  options.model = model_of(family);
  options.batch = {.micro_batch = 2, .micro_batches = 2};
  options.optimizer.beta2 = 0.95;
  options.optimizer.weight_decay = 0.1;
  options.data.format = "tokens";
  options.data.train.clear();
  options.data.validation.clear();
  return options;
}

// A run from the fixture's initial weights, on its tokens.
class FixtureRun {
 public:
  explicit FixtureRun(const Options& options)
      : fixture_(options.model.architecture + "_small.safetensors"),
        plan_(runtime::plan_run(options)),
        engine_(plan_, nullptr) {
    for_each_parameter([&](GroupIndex group, std::size_t index, const std::string& name) {
      std::vector<float> master = fixture_.floats("initial." + name), zeros(master.size()), more_zeros(master.size());
      write_state(engine_.store(), group, index, {master, zeros, more_zeros});
    });
  }

  runtime::Engine::Result step(int step) {
    const std::vector<std::int32_t> tokens = fixture_.integers("tokens"), targets = fixture_.integers("targets");
    const std::size_t rows = engine_.minibatch().tokens(0).size();
    for (int u = 0; u < 2; ++u) {
      const std::size_t begin = (static_cast<std::size_t>(step) * 2 + static_cast<std::size_t>(u)) * rows;
      std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(begin), rows, engine_.minibatch().tokens(u).begin());
      std::copy_n(targets.begin() + static_cast<std::ptrdiff_t>(begin), rows, engine_.minibatch().targets(u).begin());
    }
    runtime::Engine::Result result = engine_.train(static_cast<std::uint64_t>(step), 1e-3);
    result.loss_sum /= static_cast<double>(engine_.minibatch().predicted());
    return result;
  }

  // The first moment after one step is (1 - beta1) times the gradient.
  std::vector<float> first_gradient(GroupIndex group, std::size_t index) {
    engine_.store().complete_updates();
    const auto size = static_cast<std::size_t>(
        plan_.model.layout.groups[static_cast<std::size_t>(group)].parameters[index].shape.elements());
    std::vector<float> master(size), moment1(size), moment2(size);
    read_state(engine_.store(), group, index, {master, moment1, moment2});
    for (float& value : moment1) value /= 0.1f;
    return moment1;
  }

  template <typename Visit>
  void for_each_parameter(Visit visit) {
    const auto& groups = plan_.model.layout.groups;
    for (std::size_t group = 0; group < groups.size(); ++group) {
      for (std::size_t i = 0; i < groups[group].parameters.size(); ++i) {
        visit(static_cast<GroupIndex>(group), i, groups[group].parameters[i].name);
      }
    }
  }

  const testing::Fixture& fixture() const { return fixture_; }

 private:
  testing::Fixture fixture_;
  runtime::RunPlan plan_;
  runtime::Engine engine_;
};

double relative_error(const std::vector<float>& value, const std::vector<float>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(value[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / norm);
}

// A bias of all keys shifts the scores of a row alike, which softmax ignores.
bool is_zero(const std::string& name) { return name.ends_with("key.bias"); }

double norm_of(const std::vector<float>& values) {
  double squares = 0;
  for (const float value : values) squares += std::pow(static_cast<double>(value), 2);
  return std::sqrt(squares);
}

void expect_gradients(const std::string& family, const std::string& execution, std::int64_t vocabulary_chunk,
                      const std::string& attention = "fused") {
  const testing::SmallRun run;
  Options options = fixture_options(run, family);
  options.device.execution = execution;
  options.transfer.vocabulary_chunk = vocabulary_chunk;
  options.model.attention = attention;
  FixtureRun training(options);
  training.step(0);
  training.for_each_parameter([&](GroupIndex group, std::size_t index, const std::string& name) {
    std::vector<float> gradient = training.first_gradient(group, index);
    std::vector<float> expected = training.fixture().floats("gradient." + name);
    if (is_zero(name)) {
      EXPECT_LE(norm_of(gradient), 1e-7) << execution << " " << name;
      return;
    }
    EXPECT_LE(relative_error(gradient, expected), kTolerance) << execution << " " << name;
    expected[0] += 1e-3f * std::abs(expected[0]) + 1e-4f;  // the comparison notices one wrong element
    EXPECT_GT(relative_error(gradient, expected), kTolerance) << name;
  });
}

class PyTorch : public ::testing::TestWithParam<const char*> {};

TEST_P(PyTorch, GradientOfEveryParameter) {
  expect_gradients(GetParam(), "relay", 0);
  expect_gradients(GetParam(), "resident", 0);
}

TEST_P(PyTorch, GradientOfEveryParameterWithTheTableInChunks) {
  expect_gradients(GetParam(), "relay", 24);
  expect_gradients(GetParam(), "resident", 24);
}

TEST_P(PyTorch, GradientOfEveryParameterThroughCoreAttention) { expect_gradients(GetParam(), "relay", 0, "core"); }

void expect_losses(const std::string& family, const std::string& clip, const std::string& losses,
                   const std::string& norms) {
  const testing::SmallRun run;
  Options options = fixture_options(run, family);
  options.optimizer.clip = clip;
  FixtureRun training(options);
  const std::vector<double> expected = training.fixture().doubles(losses),
                            expected_norms = training.fixture().doubles(norms);
  for (int step = 0; step < kSteps; ++step) {
    const auto i = static_cast<std::size_t>(step);
    const runtime::Engine::Result result = training.step(step);
    EXPECT_NEAR(result.loss_sum, expected[i], kTolerance * expected[i]) << "step " << step;
    EXPECT_NEAR(result.gradient_norm, expected_norms[i], kTolerance * expected_norms[i]) << "step " << step;
  }
}

TEST_P(PyTorch, TenLossesWithoutClipping) { expect_losses(GetParam(), "none", "losses.plain", "norms.plain"); }
TEST_P(PyTorch, TenLossesWithGlobalClipping) { expect_losses(GetParam(), "global", "losses.clipped", "norms.clipped"); }

INSTANTIATE_TEST_SUITE_P(Families, PyTorch, ::testing::Values("gpt2", "bert", "llama"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace l2l
