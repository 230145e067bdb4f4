// Statistics (LayerBuilder::statistic): what microbatches measure moves them once a step, and nothing else does.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/laws/custom_models.h"
#include "tests/laws/small_run.h"
#include "tests/support/fixture.h"
#include "tests/support/refusal.h"

namespace l2l::statistics {
namespace {

using testing::Values;
using testing::ValueSpan;

constexpr std::int64_t kRows = 5, kChannels = 3, kSamples = 12;
constexpr std::uint32_t kMicroBatch = 3, kMicroBatches = 2;
constexpr const char* kMean = "layers.0.norm.running_mean";
constexpr const char* kVariance = "layers.0.norm.running_var";

// Far from 0, so that a mean which was taken for a gradient would show.
float element(std::uint64_t sample, std::int64_t row, std::int64_t channel) {
  const double wave =
      std::sin(0.7 * static_cast<double>(sample) + 1.3 * static_cast<double>(row * kChannels + channel));
  return static_cast<float>(40.0 * static_cast<double>(channel + 1) + 3 * wave);
}

std::shared_ptr<const SampleSource> samples() {
  return std::make_shared<CallbackSource>(kSamples, 1, [](const SamplePosition& position, const SampleView& sample) {
    std::vector<float> x;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t channel = 0; channel < kChannels; ++channel) x.push_back(element(position.index, row, channel));
    }
    sample.set_input(0, x);
    sample.set_target(0, std::array{static_cast<float>(position.index % 2)});
    return 1;
  });
}

// A norm of what the samples bring; its result is also the model's.
Options options() {
  Options options;
  options.precision.compute = "fp32";
  options.model = {.architecture = "custom"};
  options.model.inputs = {{.name = "x", .shape = {kRows, kChannels}}};
  options.model.targets = {{.name = "y", .shape = {1}}};
  options.model.loss = [](LayerBuilder& graph, ValueSpan outputs, ValueSpan targets) {
    const Value error = graph.subtract(graph.mean(outputs[0], {1, 2}), graph.reshape(targets[0], {1, 1}));
    return graph.multiply(error, error);
  };
  options.model.blocks = {
      testing::layer(0, "norm",
                     [](LayerBuilder& graph, ValueSpan x) -> Values { return {testing::batch_norm(graph, x[0])}; }),
      testing::layer(1, "last", [](LayerBuilder& graph, ValueSpan x) -> Values {
        return {graph.multiply(x[0], graph.vector("gain", kChannels, Distribution::ones()))};
      })};
  options.data.train_source = options.data.validation_source = samples();
  options.data.order = "sequential";
  options.device.kind = testing::test_device();
  options.device.threads = 2;
  options.batch = {.micro_batch = kMicroBatch, .micro_batches = kMicroBatches};
  options.optimizer.learning_rate = 1e-2;
  options.recompute.policy = "full";
  options.run.steps = 20;
  return options;
}

// Of each channel, the mean over the microbatches of step `step` of their means and of their variances.
std::pair<std::vector<double>, std::vector<double>> measured(int step) {
  std::vector<double> means(kChannels), variances(kChannels);
  constexpr double kCount = kMicroBatch * kRows;
  for (std::int64_t channel = 0; channel < kChannels; ++channel) {
    for (std::uint32_t microbatch = 0; microbatch < kMicroBatches; ++microbatch) {
      const std::uint64_t first = (static_cast<std::uint64_t>(step) * kMicroBatches + microbatch) * kMicroBatch;
      double sum = 0, squares = 0;
      const auto each = [&](const auto& visit) {
        for (std::uint64_t sample = first; sample < first + kMicroBatch; ++sample) {
          for (std::int64_t row = 0; row < kRows; ++row) visit(static_cast<double>(element(sample, row, channel)));
        }
      };
      each([&](double x) { sum += x; });
      each([&](double x) { squares += (x - sum / kCount) * (x - sum / kCount); });
      means[static_cast<std::size_t>(channel)] += sum / kCount / kMicroBatches;
      variances[static_cast<std::size_t>(channel)] += squares / (kCount - 1) / kMicroBatches;
    }
  }
  return {means, variances};
}

std::vector<float> read(Trainer& trainer, const char* name) {
  std::vector<float> values(kChannels);
  trainer.read_parameter(name, ParameterPart::value, 0, values);
  return values;
}

// By optimizer, clipping and number of devices: what none of them may change.
TEST(Statistics, AStepMovesThemATenthOfTheWay) {
  for (const char* const optimizer : {"adamw", "lamb", "sgd"}) {
    for (const char* const clip : {"none", "global"}) {
      for (const std::int64_t devices : {1, 2}) {
        Options given = options();
        given.optimizer.name = optimizer;
        given.optimizer.clip = clip;
        given.optimizer.max_norm = 1e-3;
        given.device.count = testing::test_device() == std::string("host") ? devices : 1;
        Trainer trainer(given);
        std::vector<double> mean(kChannels, 0.0), variance(kChannels, 1.0);
        for (int step = 0; step < 2; ++step) {
          const StepReport report = trainer.step();
          EXPECT_LT(report.gradient_norm, 20) << "statistics of 40 to 120 count as gradients";
          const auto [means, variances] = measured(step);
          const std::vector<float> mean_found = read(trainer, kMean), variance_found = read(trainer, kVariance);
          for (std::size_t i = 0; i < mean.size(); ++i) {
            mean[i] += 0.1 * (means[i] - mean[i]);
            variance[i] += 0.1 * (variances[i] - variance[i]);
            EXPECT_NEAR(mean_found[i], mean[i], 1e-6 * mean[i]) << optimizer << clip << devices;
            EXPECT_NEAR(variance_found[i], variance[i], 2e-5 * variance[i]) << optimizer << clip << devices;
          }
        }
      }
    }
  }
}

// Several blocks of elements, moments of other formats, a share of all: the statistics are what the step measured. The
// microbatch is chosen.
TEST(Statistics, WideOnesAreTheLastMeasureWithAShareOfAll) {
  constexpr std::int64_t kWide = 20'000;
  Options given = options();
  given.optimizer.moments = "int8";
  given.batch = {.minibatch = 6, .micro_batch = BatchOptions::kChosen};
  given.recompute.policy = "auto";
  given.model.inputs = {{.name = "x", .shape = {2, kWide}}};
  given.model.blocks[0].build = [](LayerBuilder& graph, ValueSpan x) -> Values {
    const Value gain = graph.vector("gain", kWide, Distribution::ones());
    const Value bias = graph.vector("bias", kWide, Distribution::zeros());
    const Value mean = graph.statistic("mean", kWide, Distribution::zeros(), 1);
    return {graph.batch_norm(x[0], gain, bias, mean, graph.statistic("variance", kWide, Distribution::ones(), 1))};
  };
  given.model.blocks[1].build = [](LayerBuilder& graph, ValueSpan x) -> Values {
    return {graph.multiply(x[0], graph.vector("gain", kWide, Distribution::ones()))};
  };
  given.model.loss = [](LayerBuilder& graph, ValueSpan outputs, ValueSpan targets) {
    const Value error = graph.subtract(graph.mean(outputs[0], {1, 2}), graph.reshape(targets[0], {1, 1}));
    return graph.multiply(error, error);
  };
  const auto x = [](std::uint64_t sample, std::int64_t i) {
    return static_cast<float>(i % 977) + static_cast<float>(sample);
  };
  given.data.train_source = given.data.validation_source =
      std::make_shared<CallbackSource>(6, 1, [&](const SamplePosition& position, const SampleView& sample) {
        std::vector<float> values(2 * kWide);
        for (std::int64_t i = 0; i < 2 * kWide; ++i) values[static_cast<std::size_t>(i)] = x(position.index, i % kWide);
        sample.set_input(0, values);
        sample.set_target(0, std::array{1.0f});
        return 1;
      });
  Trainer trainer(given);
  trainer.step();
  std::vector<float> mean(kWide);
  trainer.read_parameter("layers.0.mean", ParameterPart::value, 0, mean);
  for (std::int64_t i = 0; i < kWide; ++i) {
    ASSERT_NEAR(mean[static_cast<std::size_t>(i)], x(0, i) + 2.5f, 1e-4f * x(0, i) + 1e-5f) << i;
  }
}

TEST(Statistics, PredictionsAreByThemAndTrainingIsNot) {
  Trainer trainer(options());
  const std::vector<float> mean{10, 20, 30}, variance{4, 9, 16};
  const double before = trainer.validation_loss().value();
  trainer.write_parameter(kMean, ParameterPart::value, 0, mean);
  trainer.write_parameter(kVariance, ParameterPart::value, 0, variance);
  EXPECT_NE(trainer.validation_loss().value(), before);
  trainer.predict(*samples(), [&](std::uint64_t sample, std::span<const float> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t channel = i % kChannels;
      const double x = static_cast<double>(
          element(sample, static_cast<std::int64_t>(i) / kChannels, static_cast<std::int64_t>(channel)));
      const double expected = (x - mean[channel]) / std::sqrt(static_cast<double>(variance[channel]) + 1e-5);
      EXPECT_NEAR(static_cast<double>(values[i]), expected, 1e-5 * std::abs(expected));
    }
  });
  Trainer other(options());
  EXPECT_EQ(trainer.step().loss, other.step().loss);
}

// A step that is skipped, since a gradient overflows, leaves them alone; the next one moves them.
TEST(Statistics, ASkippedStepChangesNothing) {
  Options given = options();
  given.precision.compute = "fp16";
  given.model.loss = [](LayerBuilder& graph, ValueSpan outputs, ValueSpan) {
    return graph.scale(graph.multiply(outputs[0], outputs[0]), 60000);
  };
  Trainer trainer(given);
  const std::uint64_t begin = trainer.weights_hash();
  ASSERT_TRUE(trainer.step().skipped);
  EXPECT_EQ(trainer.weights_hash(), begin);
  for (int i = 0; i < 40 && trainer.step().skipped; ++i) {
  }
  EXPECT_NE(trainer.weights_hash(), begin);
  EXPECT_GT(read(trainer, kMean)[0], 1);
}

TEST(Statistics, FrozenOnesStay) {
  Options given = options();
  given.optimizer.train = {"layers.1.*"};
  Trainer trainer(given);
  trainer.step();
  EXPECT_EQ(read(trainer, kMean), std::vector<float>(kChannels, 0));
  for (const Parameter& parameter : trainer.parameters()) {
    EXPECT_EQ(parameter.statistic, parameter.name.find("running") != std::string::npos) << parameter.name;
  }
}

TEST(Statistics, MisuseIsRefused) {
  const auto refusal = [](const Layer::Build& build, const std::string& gradients = "auto") {
    Options given = options();
    given.precision.gradients = gradients;
    given.model.blocks[0].build = build;
    return testing::refusal([&] { Trainer trainer(given); });
  };
  const auto vector = [](LayerBuilder& graph, const char* name) {
    return graph.vector(name, kChannels, Distribution::ones());
  };
  const auto statistic = [](LayerBuilder& graph, const char* name) {
    return graph.statistic(name, kChannels, Distribution::zeros());
  };
  const std::pair<const char*, Layer::Build> cases[] = {
      {"statistic s stands where a parameter is taken",
       [&](LayerBuilder& graph, ValueSpan x) -> Values { return {graph.multiply(x[0], statistic(graph, "s"))}; }},
      {"measures nothing for its statistic s",
       [&](LayerBuilder& graph, ValueSpan x) -> Values {
         statistic(graph, "s");
         return {graph.relu(x[0])};
       }},
      {"batch_norm: v is no statistic()",
       [&](LayerBuilder& graph, ValueSpan x) -> Values {
         const Value gain = vector(graph, "g"), bias = vector(graph, "b"), mean = statistic(graph, "m");
         return {graph.batch_norm(x[0], gain, bias, mean, vector(graph, "v"))};
       }},
      {"batch_norm: statistic m is that of another one",
       [&](LayerBuilder& graph, ValueSpan x) -> Values {
         const Value gain = vector(graph, "g"), bias = vector(graph, "b"), mean = statistic(graph, "m");
         return {graph.batch_norm(x[0], gain, bias, mean, mean)};
       }},
      {"batch_norm: the mean begins at zeros, the variance at ones; v does not",
       [&](LayerBuilder& graph, ValueSpan x) -> Values {
         const Value gain = vector(graph, "g"), bias = vector(graph, "b"), mean = statistic(graph, "m");
         return {graph.batch_norm(x[0], gain, bias, graph.statistic("v", kChannels, Distribution::ones()), mean)};
       }},
      {"statistic m: begins at zeros or ones",
       [&](LayerBuilder& graph, ValueSpan x) -> Values {
         graph.statistic("m", kChannels, Distribution::normal(1));
         return {graph.relu(x[0])};
       }},
      {"statistic m: a share of 0",
       [&](LayerBuilder& graph, ValueSpan x) -> Values {
         graph.statistic("m", kChannels, Distribution::zeros(), 0);
         return {graph.relu(x[0])};
       }},
  };
  for (const auto& [said, build] : cases) {
    const std::string message = refusal(build);
    EXPECT_NE(message.find(said), std::string::npos) << message;
    EXPECT_NE(message.find("model.blocks: layer 0 (norm)"), std::string::npos) << message;
  }
  Options half = options();
  half.optimizer.train = {kVariance, "layers.1.*"};
  const std::string torn = testing::refusal([&] { Trainer trainer(half); });
  EXPECT_EQ(torn.find("layers.0: "), 0u) << torn;
  EXPECT_NE(torn.find("name both in optimizer.train, or neither"), std::string::npos) << torn;
  half.optimizer.train = {"*weight", "*bias", "layers.1.*"};
  const std::string alone = testing::refusal([&] { Trainer trainer(half); });
  EXPECT_NE(alone.find("trains its gain or bias, but not its statistics"), std::string::npos) << alone;
  const std::string rounded = refusal(options().model.blocks[0].build, "bf16");
  EXPECT_NE(rounded.find("precision.gradients = \"bf16\": the model has statistics"), std::string::npos) << rounded;
}

}  // namespace
}  // namespace l2l::statistics
