// Whole models of a program's own (model.architecture = "custom"): the laws hold, and PyTorch's gradients and losses
// are theirs.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <limits>
#include <set>
#include <thread>

#include "tests/laws/custom_runs.h"
#include "tests/support/fixture.h"
#include "tests/support/refusal.h"

namespace l2l::custom_models {
namespace {

using testing::custom_options;
using testing::custom_record;
using testing::Record;
using testing::SmallRun;

TEST(CustomModels, NoWayToRunThemChangesABit) {
  for (const char* const name : testing::kCustomModels) {
    for (const char* const compute : {"fp32", "bf16"}) {
      Options options = custom_options(testing::custom_model(name));
      options.precision.compute = compute;
      const Record expected = testing::expect_same_bits(options, [](const Options& o) { return custom_record(o); },
                                                        std::string(name) + " " + compute,
                                                        {{"one thread", [](Options& o) { o.device.threads = 1; }}});
      Options other = options;
      other.run.seed = 2;
      EXPECT_FALSE(custom_record(other) == expected);
    }
  }
}

TEST(CustomModels, DeviceMemoryDoesNotDependOnDepth) {
  const auto peak = [](int layers, const char* stash) {
    Options options = custom_options(testing::perceptron(layers));
    options.transfer.stash = stash;
    Trainer trainer(options);
    trainer.step();
    return trainer.device_peak_bytes();
  };
  EXPECT_EQ(peak(2, "host"), peak(60, "host"));
  EXPECT_LT(peak(2, "device"), peak(60, "device"));
}

TEST(CustomModels, AnInterruptedRunGoesOnBitForBit) {
  for (const char* const name : testing::kCustomModels) {
    const testing::TemporaryFolder folder;
    Options options = custom_options(testing::custom_model(name));
    options.checkpoint.directory = folder / "checkpoints";
    testing::expect_resumed(options, name);
    options.model.inputs[0].name += "s";
    const std::string said = testing::refusal([&] { Trainer(options).resume(options.checkpoint.directory); });
    EXPECT_NE(said.find("model.inputs = [\"" + options.model.inputs[0].name), std::string::npos) << said;
  }
}

// Every gradient of the first step, by a step of SGD at rate 1, and the losses of ten steps.
class AgainstPyTorch : public ::testing::TestWithParam<const char*> {
 protected:
  Options options() {
    Options options = custom_options(testing::custom_model(GetParam()));
    options.optimizer.name = "sgd";
    options.optimizer.momentum = 0;
    options.optimizer.weight_decay = 0;
    options.optimizer.clip = "none";
    options.schedule.kind = "constant";
    options.data.order = "sequential";
    options.batch = {.micro_batch = 2, .micro_batches = 2};
    options.data.train_source = std::make_shared<CallbackSource>(40, 1, [&](const auto& position, const auto& sample) {
      const auto copy = [&](std::span<const TensorSpec> specs, const std::string& prefix, const auto& set) {
        for (std::size_t i = 0; i < specs.size(); ++i) {
          const std::size_t count = testing::elements_of(specs[i]), first = position.index * count;
          const std::string name = prefix + specs[i].name;
          if (specs[i].below > 0) {
            const std::vector<std::int32_t> all = fixture_.integers(name);
            set(i, std::span(all).subspan(first, count));
          } else {
            const std::vector<float> all = fixture_.floats(name);
            set(i, std::span(all).subspan(first, count));
          }
        }
      };
      copy(sample.input_tensors, "input.", [&](std::size_t i, auto values) { sample.set_input(i, values); });
      copy(sample.target_tensors, "target.", [&](std::size_t i, auto values) { sample.set_target(i, values); });
      return std::int64_t{1} + static_cast<std::int64_t>(position.index % 3);
    });
    return options;
  }
  // A run from the fixture's parameters.
  std::unique_ptr<Trainer> begin(double rate) {
    Options given = options();
    given.optimizer.learning_rate = rate;
    auto trainer = std::make_unique<Trainer>(given);
    for (const Parameter& parameter : trainer->parameters()) {
      trainer->write_parameter(parameter.name, ParameterPart::value, 0, fixture_.floats("initial." + parameter.name));
    }
    return trainer;
  }
  static double norm(std::span<const float> values) {
    double sum = 0;
    for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
    return std::sqrt(sum);
  }

  const testing::Fixture fixture_{std::string("custom_") + GetParam() + ".safetensors"};
};

TEST_P(AgainstPyTorch, GradientsAgree) {
  const std::unique_ptr<Trainer> trainer = begin(1);
  trainer->step();
  for (const Parameter& parameter : trainer->parameters()) {
    const std::vector<float> before = fixture_.floats("initial." + parameter.name),
                             expected = fixture_.floats("gradient." + parameter.name);
    std::vector<float> after(before.size()), error(before.size());
    trainer->read_parameter(parameter.name, ParameterPart::value, 0, after);
    for (std::size_t i = 0; i < before.size(); ++i) error[i] = before[i] - after[i] - expected[i];
    // Rounding of a master of about 1 hides 6e-8 of each element.
    const double rounding = 6e-8 * norm(before);
    if (norm(expected) < 1e-12) {  // the batch norm behind it takes out what it adds
      EXPECT_LT(norm(error), 1e-6) << parameter.name;
      continue;
    }
    EXPECT_LT(norm(error), 1e-5 * norm(expected) + rounding) << parameter.name;
    EXPECT_GT(norm(expected), 100 * rounding) << parameter.name << " has no gradient to speak of";
  }
}

TEST_P(AgainstPyTorch, LossesAndPredictionsAgree) {
  const std::unique_ptr<Trainer> trainer = begin(0.05);
  const std::vector<float> expected = fixture_.floats("losses");
  for (const float loss : expected) EXPECT_NEAR(trainer->step().loss, loss, 1e-5 * std::abs(loss));
  EXPECT_GT(std::abs(expected.front() - expected.back()), 1e-3 * std::abs(expected.front()));
  const std::vector<float> predictions = fixture_.floats("predictions");
  std::vector<float> found;
  trainer->predict(*options().data.train_source, [&](std::uint64_t, std::span<const float> values) {
    found.insert(found.end(), values.begin(), values.end());
  });
  ASSERT_EQ(found.size(), predictions.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], predictions[i], 2e-5);
  const std::shared_ptr<const SampleSource> source = options().data.train_source;
  const auto within = [&](const auto& use) {
    trainer->predict(*source, [&](std::uint64_t, std::span<const float>) { use(); });
  };
  EXPECT_THROW(within([&] { trainer->step(); }), Error);
  EXPECT_THROW(within([&] { within([] {}); }), Error);
  within([] {});
}

INSTANTIATE_TEST_SUITE_P(Models, AgainstPyTorch, ::testing::ValuesIn(testing::kCustomModels),
                         [](const auto& info) { return std::string(info.param); });

// Sums, copies and layers without parameters hand gradients on: y, y and their sum are 2 y.
TEST(CustomModels, GradientsPassThroughCopiesAndSums) {
  using testing::Values;
  using testing::ValueSpan;
  const auto losses = [](std::vector<Layer> between) {
    Options options = custom_options(testing::perceptron(0));
    options.model.blocks.insert(options.model.blocks.begin() + 1, between.begin(), between.end());
    return custom_record(options, 6).losses;
  };
  const auto twice =
      testing::layer(1, "twice", [](LayerBuilder& graph, ValueSpan x) -> Values { return {graph.scale(x[0], 2)}; });
  const auto copies = testing::layer(1, "copies", [](LayerBuilder& graph, ValueSpan x) -> Values {
    const Value y = graph.scale(x[0], 1);
    return {y, x[0], y};
  });
  const auto sum = testing::layer(2, "sum", [](LayerBuilder& graph, ValueSpan x) -> Values {
    return {graph.add(x[0], x[1]), graph.scale(x[2], 0)};
  });
  const auto both =
      testing::layer(3, "both", [](LayerBuilder& graph, ValueSpan x) -> Values { return {graph.add(x[0], x[1])}; });
  const std::vector<double> expected = losses({twice}), found = losses({copies, sum, both});
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6 * expected[i]);
  EXPECT_GT(std::abs(expected[0] - expected[5]), 1e-3);
}

// A parameter that is used twice, beside one that is frozen; and a loss of several parts.
TEST(CustomModels, ParametersMayBeUsedTwiceBesideFrozenOnes) {
  using testing::Values;
  using testing::ValueSpan;
  Options options = custom_options(testing::perceptron());
  options.model.blocks[1].build = [](LayerBuilder& graph, ValueSpan x) -> Values {
    const Value w = graph.matrix("w", 16, 16, Distribution::normal(0.3));
    const Value v = graph.matrix("v", 16, 16, Distribution::normal(0.3));
    return {graph.linear(graph.linear(graph.linear(x[0], w), v), w)};
  };
  options.model.blocks[1].type = "twice";
  options.optimizer.train = {"layers.1.w", "layers.0.*"};
  options.model.loss = [](LayerBuilder& graph, ValueSpan outputs, ValueSpan targets) {
    const Value small = graph.mean(graph.multiply(outputs[0], outputs[0]), {1});
    return graph.add(graph.cross_entropy(outputs[0], targets[0]), small);
  };
  const Record relay = custom_record(options);
  options.device.execution = "resident";
  EXPECT_EQ(custom_record(options), relay);
  options.precision.compute = "bf16";
  EXPECT_NE(testing::refusal([&] { Trainer trainer(options); }).find("cross_entropy() is fp32"), std::string::npos);
}

// Two depthwise convolutions with one weight, in a layer and in two layers that share it: the same gradient.
TEST(CustomModels, DepthwiseConvolutionsMayHaveTheSameWeight) {
  using testing::Values;
  using testing::ValueSpan;
  const auto weight = [](LayerBuilder& graph) { return graph.matrix("w", 4, 9, Distribution::normal(0.4)); };
  const auto convolve = [](LayerBuilder& graph, Value x, Value w) {
    const Window window{.size = {3, 3}, .padding = {1, 1}};
    return graph.reshape(graph.convolution(graph.reshape(x, {2, 2, 4}), w, {}, window, 4), {16});
  };
  const Layer::Build twice = [=](LayerBuilder& graph, ValueSpan x) -> Values {
    const Value w = weight(graph);
    return {convolve(graph, convolve(graph, x[0], w), w)};
  };
  const Layer::Build once = [=](LayerBuilder& graph, ValueSpan x) -> Values {
    return {convolve(graph, x[0], weight(graph))};
  };
  const auto losses = [](const std::vector<Layer>& between) {
    Options options = custom_options(testing::perceptron(0));
    options.model.blocks.insert(options.model.blocks.begin() + 1, between.begin(), between.end());
    return custom_record(options, 6).losses;
  };
  const std::vector<double> expected =
      losses({{.id = 1, .type = "once", .build = once}, {.id = 2, .type = "once", .build = once, .shares = 1}});
  const std::vector<double> found = losses({{.id = 1, .type = "twice", .build = twice}});
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]);
  EXPECT_GT(std::abs(expected[0] - expected[5]), 1e-3);
}

// A weight that does not fit is named, with the shape that fits, by the function that takes it.
TEST(CustomModels, WeightsThatDoNotFitAreNamed) {
  using Build = std::function<Value(LayerBuilder&, Value)>;
  const auto refusal = [](const Build& build) {
    Options options = custom_options(testing::perceptron());
    options.model.blocks[1].build = [&](LayerBuilder& graph, testing::ValueSpan x) -> testing::Values {
      return {build(graph, x[0])};
    };
    options.model.blocks[1].type = "misfit";
    return testing::refusal([&] { Trainer trainer(options); });
  };
  const auto matrix = [](LayerBuilder& graph, std::int64_t rows, std::int64_t columns) {
    return graph.matrix("w", rows, columns, Distribution::normal(0.1));
  };
  const auto vector = [](LayerBuilder& graph) { return graph.vector("b", 3, Distribution::zeros()); };
  const auto image = [](LayerBuilder& graph, Value x) { return graph.reshape(x, {2, 2, graph.columns(x) / 4}); };
  const std::vector<std::pair<Build, std::string>> misfits = {
      {[&](auto& graph, Value x) { return graph.linear(x, matrix(graph, 8, 16)); },
       "linear: parameter w is [8, 16], where the other operands take [16, 16]"},
      {[&](auto& graph, Value x) { return graph.linear(x, matrix(graph, 16, 16), vector(graph)); },
       "linear: parameter b is [3], where the other operands take [16]"},
      {[&](auto& graph, Value x) { return graph.linear_transposed(x, matrix(graph, 16, 8)); },
       "linear_transposed: parameter w is [16, 8], where the other operands take [16, 16]"},
      {[&](auto& graph, Value x) {
         return graph.convolution(image(graph, x), matrix(graph, 6, 5), {}, {.size = {2, 2}});
       },
       "convolution: parameter w is [6, 5], where the other operands take [6, 16]"},
      {[&](auto& graph, Value x) {
         return graph.convolution(image(graph, x), matrix(graph, 6, 5), {}, {.size = {2, 2}}, 2);
       },
       "convolution: parameter w is [6, 5], where the other operands take [6, 8]"},
  };
  for (const auto& [build, message] : misfits) {
    const std::string said = refusal(build);
    EXPECT_NE(said.find(message), std::string::npos) << said;
  }
}

// The loss of a sample that counts for 3 is divided with it, and samples behind the last one count for nothing.
TEST(CustomModels, ALossIsDividedByWhatSamplesCountFor) {
  const auto evaluation = [](std::int64_t counts, std::uint64_t size) {
    Options options = custom_options(testing::perceptron());
    const auto samples = testing::drawn_samples();
    options.data.validation_source =
        std::make_shared<CallbackSource>(size, 1, [=](const SamplePosition& position, const SampleView& sample) {
          samples->read(position, sample);
          return counts;
        });
    Trainer trainer(options);
    return trainer.evaluate().value();
  };
  const Evaluation once = evaluation(1, 7), thrice = evaluation(3, 7);
  EXPECT_EQ(once.tokens, 7);
  EXPECT_EQ(thrice.tokens, 21);
  EXPECT_NEAR(once.loss, 3 * thrice.loss, 1e-12);
  EXPECT_GT(once.loss, 0.5);
}

// Metrics of validations, which predict() gives the numbers for.
TEST(CustomModels, MetricsAreOfAllSamplesOnce) {
  const auto largest = [](std::span<const float> logits) {
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  };
  const testing::TemporaryFolder folder;
  Options options = custom_options(testing::perceptron());
  options.model.targets.push_back({.name = "number", .shape = {2}});
  options.model.metrics = {
      {.name = "accuracy",
       .add = [=](auto output, auto targets,
                  std::span<double> sums) { sums[0] += largest(output) == targets[0].indices[0] ? 1 : 0; }},
      {.name = "product",
       .sums = 2,
       .add =
           [](auto output, auto targets, std::span<double> sums) {
             sums[0] += static_cast<double>(output[1]) * static_cast<double>(targets[1].numbers[1]);
             sums[1] += targets[1].indices.empty() ? 3 : 100;
           },
       .value = [](std::span<const double> sums,
                   std::uint64_t samples) { return sums[0] + sums[1] + static_cast<double>(samples); }}};
  options.data.validation_source = testing::drawn_samples(17);  // no whole number of minibatches
  options.run.validate_every = 2;
  options.checkpoint = {.directory = folder / "checkpoints", .best = "accuracy"};
  options.run.steps = 4;
  Trainer trainer(options);
  const RunResult result = trainer.run();
  double right = 0, product = 0;
  std::vector<std::pair<std::int32_t, float>> expected(17);
  const auto remembering =
      std::make_shared<CallbackSource>(17, 1, [&](const SamplePosition& p, const SampleView& sample) {
        const std::int64_t counts = testing::drawn_samples(17)->read(p, sample);
        expected[p.index] = {sample.targets[0], std::bit_cast<float>(sample.targets[2])};
        return counts;
      });
  trainer.predict(*remembering, [&](std::uint64_t i, std::span<const float> values) {
    right += largest(values) == expected[i].first ? 1 : 0;
    product += static_cast<double>(values[1]) * static_cast<double>(expected[i].second);
  });
  using Named = std::vector<std::pair<std::string, double>>;
  EXPECT_EQ(result.validation.value().metrics, (Named{{"accuracy", right / 17}, {"product", product + 3 * 17 + 17}}));
  EXPECT_TRUE(std::filesystem::exists(folder / "checkpoints/best"));
  EXPECT_GT(right, 0);

  const auto refusal = [&](const std::function<void(Options&)>& change) {
    Options changed = options;
    change(changed);
    return testing::refusal([&] { Trainer other(changed); });
  };
  EXPECT_NE(refusal([](Options& o) { o.checkpoint.best = "f1"; }).find("loss, accuracy, product"), std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.model.metrics[1].name = "loss"; }).find("model.metrics"), std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.model.metrics[1].add = nullptr; }).find("\"product\""), std::string::npos);
  EXPECT_NE(refusal([](Options& o) { o.model.metrics[1].sums = (1 << 20) + 1; }).find("\"product\""),
            std::string::npos);
}

// A program's own code at the end of a validation is watched as the passes are.
TEST(CustomModels, AMetricThatHangsIsReported) {
  ::setenv("L2L_HANG_SECONDS", "0.5", 1);
  std::promise<void> reported;
  set_hang_handler([&](const std::string&) { reported.set_value(); });
  std::future_status status = std::future_status::timeout;
  Options options = custom_options(testing::perceptron());
  options.data.validation_source = testing::drawn_samples();
  options.model.metrics = {{.name = "slow",
                            .add = [](auto, auto, auto) {},
                            .value =
                                [&](auto, auto) {
                                  status = reported.get_future().wait_for(std::chrono::seconds(20));
                                  return 0.0;
                                }}};
  EXPECT_EQ(Trainer(options).evaluate().value().metrics.size(), 1u);
  EXPECT_EQ(status, std::future_status::ready);
  set_hang_handler({});
  ::unsetenv("L2L_HANG_SECONDS");
}

// A function that takes the outputs may take its time, as may a source in this thread.
TEST(CustomModels, PredictionsWaitForTheProgram) {
  ::setenv("L2L_HANG_SECONDS", "0.5", 1);
  std::atomic<bool> reported = false;
  set_hang_handler([&](const std::string&) { reported = true; });
  Trainer trainer(custom_options(testing::perceptron()));
  trainer.predict(*testing::drawn_samples(), [](std::uint64_t sample, auto) {
    if (sample == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  });
  EXPECT_FALSE(reported);
  set_hang_handler({});
  ::unsetenv("L2L_HANG_SECONDS");
}

// Of the seven rows of a sample the four that its indices name.
TEST(CustomModels, GatherTakesWhatIndicesName) {
  using testing::Values;
  using testing::ValueSpan;
  Options options = custom_options({.architecture = "custom"});
  options.model.inputs = {{.name = "x", .shape = {7, 2}},
                          {.name = "places", .shape = {4}, .element = TensorSpec::Element::i32, .below = 7}};
  options.model.targets = {{.name = "y", .shape = {4, 2}}};
  options.model.loss = testing::squared_loss(1);
  options.model.blocks = {
      testing::layer(0, "scale",
                     [](LayerBuilder& graph, ValueSpan x) -> Values {
                       return {graph.multiply(x[0], graph.vector("gain", 2, Distribution::ones())), x[1]};
                     }),
      testing::layer(1, "last", [](LayerBuilder& graph, ValueSpan x) -> Values {
        const Value taken = graph.gather(x[0], x[1]);
        return {graph.add(taken, graph.vector("bias", 2, Distribution::zeros()))};
      })};
  std::vector<std::vector<float>> expected(50);
  const auto source = std::make_shared<CallbackSource>(50, 1, [&](const SamplePosition& p, const SampleView& sample) {
    const std::int64_t counts = testing::drawn_samples()->read(p, sample);
    for (std::size_t i = 0; i < 8; ++i) {
      const auto row = static_cast<std::size_t>(sample.tokens[14 + i / 2]);
      expected[p.index].push_back(std::bit_cast<float>(sample.tokens[2 * row + i % 2]));
    }
    return counts;
  });
  Trainer trainer(options);
  trainer.predict(*source, [&](std::uint64_t i, std::span<const float> values) {
    EXPECT_TRUE(std::ranges::equal(values, expected[i]));
  });
  const double before = trainer.step().loss;
  for (int i = 0; i < 30; ++i) trainer.step();
  EXPECT_LT(trainer.step().loss, before);
  testing::expect_same_bits(
      options, [](const Options& o) { return custom_record(o); }, "gather");

  options.model.inputs[1].below = 8;
  const std::string said = testing::refusal([&] { Trainer other(options); });
  EXPECT_NE(said.find("gather: indices below 8 (x1) of the 7 of [3, 7, 2]"), std::string::npos) << said;
}

TEST(CustomModels, RefusalsNameTheLayerAndWhatDoesNotFit) {
  using testing::Values;
  using testing::ValueSpan;
  const auto refusal = [](const std::function<void(Options&)>& change) {
    Options options = custom_options(testing::perceptron());
    change(options);
    return testing::refusal([&] { Trainer trainer(options); });
  };
  const auto building = [&](const std::function<Value(LayerBuilder&, Value)>& build) {
    return refusal([&](Options& options) {
      options.model.blocks[0].build = [build](LayerBuilder& graph, ValueSpan x) -> Values {
        return {build(graph, testing::dense(graph, x[0], 16))};
      };
    });
  };
  const auto expect = [](const std::string& message, std::initializer_list<const char*> parts) {
    for (const char* const part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(building([](LayerBuilder& g, Value x) { return g.reshape(x, {5}); }),
         {"layer 0 (first)", "reshape", "[3, 16]"});
  expect(building([](LayerBuilder& g, Value x) { return g.slice(x, 1, 10, 7); }), {"slice", "dimension 1", "[3, 16]"});
  expect(building([](LayerBuilder& g, Value x) { return g.sum(x, {0}); }), {"sum", "dimension 0"});
  expect(building([](LayerBuilder& g, Value x) { return g.permute(x, {1, 0}); }), {"permute", "[3, 16]"});
  expect(building([](LayerBuilder& g, Value x) { return g.max_pool(x, {}); }), {"max_pool", "[3, 16]"});
  expect(building([](LayerBuilder& g, Value x) { return g.add(x, g.vector("v", 7, Distribution::ones())); }),
         {"add", "[3, 16]", "[7]"});
  expect(building([](LayerBuilder& g, Value x) {
           return g.max_pool(g.reshape(x, {4, 4, 1}), {.size = {5, 1}});
         }),
         {"max_pool", "window of 5"});
  expect(building([](LayerBuilder& g, Value x) {
           return g.max_pool(g.reshape(x, {1, 16, 1}), {.size = {2, 1}, .padding = {1, 0}, .dilation = {2, 1}});
         }),
         {"max_pool", "a window covers padding alone"});
  expect(
      building([](LayerBuilder& g, Value x) {
        return g.convolution(g.reshape(x, {4, 4, 1}), g.matrix("w", 1, 1, Distribution::ones()), {}, {.size = {3, -1}});
      }),
      {"convolution: size, stride and dilation of a window are 1 or more"});
  expect(building([](LayerBuilder& g, Value x) {
           constexpr int kMost = std::numeric_limits<int>::max();
           return g.convolution(g.reshape(x, {2, 2, 4}), g.matrix("w", 1, 1, Distribution::ones()), {},
                                {.size = {kMost, kMost}});
         }),
         {"convolution: a window of"});
  expect(building([](LayerBuilder& g, Value x) {
           const Value image = g.reshape(x, {4, 4, 1});
           return g.convolution(image, image, {}, {});
         }),
         {"stands where a parameter is taken"});
  const auto grouped = [&](int groups, std::int64_t out, bool again) {
    return building([=](LayerBuilder& g, Value x) {
      const Value image = g.reshape(x, {2, 2, 4}), w = g.matrix("w", out, 2, Distribution::ones());
      const Value y = g.convolution(image, w, {}, {}, groups);
      return again ? g.linear_transposed(g.reshape(y, {16}), w) : y;
    });
  };
  expect(grouped(3, 4, false), {"convolution: 4 channels in and 4 out are not made of 3 groups"});
  expect(grouped(2, 3, false), {"convolution", "3 out"});
  expect(grouped(4, 4, false), {"convolution: parameter w is [4, 2]", "[4, 1]"});
  expect(grouped(2, 4, true), {"parameter w stands in groups before"});
  expect(refusal([](Options& o) {
           o.model.loss = [](LayerBuilder& g, ValueSpan outputs, ValueSpan targets) {
             const Value rows = g.lookup(targets[0], g.matrix("table", 5, 5, Distribution::ones()));
             return g.multiply(outputs[0], rows);
           };
         }),
         {"model.loss", "lookup: class is a target"});
  expect(building([](LayerBuilder& g, Value x) { return g.mean(x, {1, 1}); }), {"dimension 1 is named twice"});
  expect(building([](LayerBuilder& g, Value x) { return g.add(x, g.matrix("each", 3, 16, Distribution::zeros())); }),
         {"each [3, 16] has elements for each sample"});
  expect(building([](LayerBuilder& g, Value x) {
           return g.max_pool(g.reshape(x, {4, 2, 2}), {.size = {3, 3}, .stride = {2, 2}});
         }),
         {"does not fit"});
  constexpr std::int64_t kHuge = std::int64_t{1} << 32;
  const auto declaring = [&](const std::function<void(LayerBuilder&)>& declare) {
    return building([declare](LayerBuilder& g, Value x) {
      declare(g);
      return x;
    });
  };
  expect(building(
             [](LayerBuilder& g, Value x) { return g.linear(x, g.matrix("wide", 16, kHuge, Distribution::zeros())); }),
         {"layer 0 (first): parameter wide: a dimension of 4294967296; it is 1 to 2147483647"});
  expect(declaring([](LayerBuilder& g) { g.matrix("large", 1 << 20, 1 << 20, Distribution::zeros()); }),
         {"layer 0 (first): parameter large [1048576, 1048576] has more than 2^34 elements"});
  expect(declaring([](LayerBuilder& g) { g.vector("none", 0, Distribution::zeros()); }),
         {"layer 0 (first): parameter none: a dimension of 0"});
  expect(declaring([](LayerBuilder& g) { g.statistic("mean", -1, Distribution::zeros()); }),
         {"layer 0 (first): parameter mean: a dimension of -1"});
  expect(declaring([](LayerBuilder& g) {
           g.matrices({{"q", 1 << 30}, {"k", 1 << 30}}, 1, Distribution::zeros());
         }),
         {"layer 0 (first): parameters q, k: a dimension of 2147483648"});
  expect(refusal([](Options& o) {
           o.model.inputs[0].shape = {kHuge, kHuge, 3};
         }),
         {"model.inputs: tensor \"", "has more than 2^34 elements"});
  expect(refusal([](Options& o) {
           o.model.targets.push_back({.name = "map", .shape = {1 << 20, 1 << 20}});
         }),
         {"model.targets: tensor \"map\": has more than 2^34 elements"});
  expect(refusal([](Options& o) { o.model.blocks.back().shares = 0; }), {"layer 100 (last)"});
  expect(refusal([](Options& o) { o.model.blocks.back().type = "hidden"; }), {"the last layer"});
  expect(refusal([](Options& o) { o.model.loss = nullptr; }), {"model.loss"});
  expect(refusal([](Options& o) { o.model.inputs.clear(); }), {"model.inputs"});
  expect(refusal([](Options& o) { o.model.blocks.resize(1); }), {"model.blocks", "two or more"});
  expect(refusal([](Options& o) { o.model.blocks.clear(); }), {"model.blocks lists 0 layers", "two or more"});
  expect(refusal([](Options& o) { o.model.targets[0].below = 6; }), {"model.loss", "cross_entropy", "5", "6"});
  expect(refusal([](Options& o) { o.data.train = {"text"}; }), {"data", "custom"});
  expect(refusal([](Options& o) { o.model.architecture = "gpt2"; }), {"model.inputs", "custom"});
}

TEST(CustomModels, WhatASourceWritesIsChecked) {
  const auto refusal = [](const std::function<std::int64_t(const SampleView&)>& read) {
    Options options = custom_options(testing::mixed());
    options.data.train_source = std::make_shared<CallbackSource>(
        9, 1, [read](const SamplePosition&, const SampleView& sample) { return read(sample); });
    return testing::refusal([&] { Trainer(options).step(); });
  };
  const std::vector<std::int32_t> words(10, 20);
  const std::vector<float> numbers(3, NAN);
  EXPECT_NE(refusal([&](const SampleView& s) { return s.set_input(0, words), 1; }).find("\"words\", element 0 is 20"),
            std::string::npos);
  EXPECT_NE(
      refusal([&](const SampleView& s) { return s.set_input(1, numbers), 1; }).find("\"numbers\", element 0 is not"),
      std::string::npos);
  EXPECT_NE(refusal([&](const SampleView& s) { return s.set_input(0, numbers), 1; }).find("numbers are written"),
            std::string::npos);
  EXPECT_NE(refusal([&](const SampleView& s) { return s.set_input(2, numbers), 1; }).find("there are 2"),
            std::string::npos);
  for (const std::int64_t counts : {std::int64_t{0}, std::int64_t{1} << 31}) {
    EXPECT_NE(refusal([&](const SampleView&) { return counts; }).find("counts for 1 to 2147483647"), std::string::npos);
  }
}

TEST(CustomModels, WhatIsForTextIsRefused) {
  Trainer trainer(custom_options(testing::perceptron()));
  const std::vector<std::int32_t> prompt{1};
  EXPECT_THROW(trainer.generate(prompt, {}), BadInput);
  EXPECT_THROW(trainer.logits(prompt, [](auto, auto, auto) {}), BadInput);
  EXPECT_THROW(trainer.hidden_states(prompt, [](auto, auto, auto) {}), BadInput);
  const std::vector<std::int32_t> first{0};
  EXPECT_THROW(trainer.logits(first, [](auto, auto, auto) {}), BadInput);
  Options tokens = custom_options(testing::perceptron());
  tokens.data.train_source = std::make_shared<MemorySource>(
      std::vector<MemorySource::Sample>{{.tokens = {1, 2, 3, 4}}, {.tokens = {1, 2, 3}}});
  EXPECT_NE(testing::refusal([&] { Trainer(tokens).step(); }).find("tensors"), std::string::npos);
}

}  // namespace
}  // namespace l2l::custom_models
