// Layers of a program's own that rebuild their inputs: streams of several shapes, whose number grows from layer to
// layer (model.reversible with model.architecture = "custom").
#include <gtest/gtest.h>

#include "tests/laws/custom_runs.h"
#include "tests/support/refusal.h"

namespace l2l::reversible_layers {
namespace {

using testing::custom_record;
using testing::Record;
using testing::Values;
using testing::ValueSpan;

// The streams of each scale are the halves of its channels.
Value both(LayerBuilder& graph, Value first, Value second) { return graph.concatenate({first, second}, 3); }

Values halves(LayerBuilder& graph, Value x) {
  const std::int64_t half = graph.columns(x) / 2;
  return {graph.slice(x, 3, 0, half), graph.slice(x, 3, half, half)};
}

Value normed(LayerBuilder& graph, Value x, const std::string& name) {
  const std::int64_t channels = graph.columns(x);
  return graph.batch_norm(x, graph.vector(name + ".weight", channels, Distribution::ones()),
                          graph.vector(name + ".bias", channels, Distribution::zeros()),
                          graph.statistic(name + ".mean", channels, Distribution::zeros()),
                          graph.statistic(name + ".variance", channels, Distribution::ones()));
}

Value branch(LayerBuilder& graph, Value x, std::int64_t out, int stride, const std::string& name) {
  const Window window{.size = {3, 3}, .stride = {stride, stride}, .padding = {1, 1}};
  return graph.dropout(graph.silu(normed(graph, testing::convolution(graph, x, out, window, name), name + ".norm")),
                       0.1);
}

// Each element of the image twice in both directions.
Value enlarged(LayerBuilder& graph, Value x) {
  const std::vector<std::int64_t> shape = graph.shape(x);
  const Value apart = graph.reshape(x, {shape[1], 1, shape[2], 1, shape[3]});
  const Value wide = graph.concatenate({apart, apart}, 4);
  return graph.reshape(graph.concatenate({wide, wide}, 2), {2 * shape[1], 2 * shape[2], shape[3]});
}

Values stem(LayerBuilder& graph, ValueSpan x) {
  const Value y = testing::convolution(graph, x[0], 6, {.size = {3, 3}, .padding = {1, 1}}, "conv");
  return graph.streams(halves(graph, y));
}

// Couples the two halves of a scale, and begins one of half the size.
Values grow(LayerBuilder& graph, ValueSpan x) {
  const Value second = graph.couple(x[1], branch(graph, x[0], 3, 1, "f"));
  const Value first = graph.couple(x[0], branch(graph, second, 3, 1, "g"));
  const Values smaller = graph.streams(halves(graph, branch(graph, both(graph, first, second), 10, 2, "down")));
  return {first, second, smaller[0], smaller[1]};
}

// Adds the first scale to the second, and then the second to the first.
Values fuse(LayerBuilder& graph, ValueSpan x) {
  const Value down = branch(graph, both(graph, x[0], x[1]), 10, 2, "down");
  const Values small = graph.couple({x[2], x[3]}, halves(graph, down));
  const Value up = enlarged(graph, branch(graph, both(graph, small[0], small[1]), 6, 1, "up"));
  const Values large = graph.couple({x[0], x[1]}, halves(graph, up));
  return {large[0], large[1], small[0], small[1]};
}

Values classify(LayerBuilder& graph, ValueSpan x) {
  Values means;
  for (const Value each : x) means.push_back(graph.mean(each, {1, 2}));
  const Value all = graph.concatenate(means, 3);
  return {testing::dense(graph, graph.reshape(all, {graph.columns(all)}), 4)};
}

ModelOptions pyramid(int depth, const char* reversible) {
  ModelOptions model{.architecture = "custom", .reversible = reversible};
  model.inputs = {{.name = "image", .shape = {8, 6, 2}}};
  model.targets = {{.name = "class", .element = TensorSpec::Element::i32, .below = 4}};
  model.loss = testing::class_loss();
  model.blocks = {testing::layer(0, "stem", stem), testing::layer(1, "grow", grow)};
  for (int i = 0; i < depth; ++i) {
    model.blocks.push_back(testing::layer(static_cast<std::uint32_t>(2 + i), "fuse", fuse));
  }
  model.blocks.push_back(testing::layer(1000, "classify", classify));
  return model;
}

// What layers keep is left open where they do not rebuild it.
Options options_of(ModelOptions model) {
  Options options = testing::custom_options(std::move(model));
  options.recompute.policy = "auto";
  return options;
}

// The stem keeps its inputs, wherever these wait; of the layers behind it all do where a place is named.
struct Way {
  const char *execution, *stash;
};
constexpr Way kWays[] = {
    {"relay", "auto"}, {"relay", "device"}, {"relay", "host"}, {"resident", "auto"}, {"resident", "device"}};

void expect_same_bits_in_all_ways(Options options, const std::string& where) {
  std::optional<Record> expected;
  for (const Way& way : kWays) {
    options.device.execution = way.execution;
    options.transfer.stash = way.stash;
    const Record found = custom_record(options);
    if (!expected) expected = found;
    EXPECT_EQ(found, *expected) << where << ", " << way.execution << ", " << way.stash;
  }
}

TEST(ReversibleLayers, RebuildTheirInputsBitForBitInFixedPoint) {
  for (const ModelOptions& model : {pyramid(3, "fixed"), testing::small_revbifpn("fixed")}) {
    for (const char* const compute : {"fp32", "bf16", "fp16"}) {
      Options options = options_of(model);
      options.precision.compute = compute;
      expect_same_bits_in_all_ways(options, compute);
    }
  }
}

// In fp32 what is rebuilt has other last bits, which the comparison above would find.
TEST(ReversibleLayers, RebuildTheirInputsAlmostInFp32) {
  Options options = options_of(pyramid(3, "float"));
  const Record rebuilt = custom_record(options);
  options.transfer.stash = "device";
  const Record kept = custom_record(options);
  EXPECT_NE(rebuilt, kept);
  for (std::size_t i = 0; i < kept.losses.size(); ++i) EXPECT_NEAR(rebuilt.losses[i] / kept.losses[i], 1, 1e-4);
  options.model.reversible = "none";
  options.transfer.stash = "auto";
  const Record plain = custom_record(options);  // the same function, but for the order in which gradients are added
  for (std::size_t i = 0; i < kept.losses.size(); ++i) EXPECT_NEAR(plain.losses[i] / kept.losses[i], 1, 1e-4);
}

TEST(ReversibleLayers, DeviceMemoryDoesNotDependOnDepth) {
  const auto peak = [](int depth, const char* stash) {
    Options options = options_of(pyramid(depth, "fixed"));
    options.transfer.stash = stash;
    Trainer trainer(options);
    trainer.step();
    return trainer.device_peak_bytes();
  };
  EXPECT_EQ(peak(2, "auto"), peak(40, "auto"));
  EXPECT_LT(peak(2, "device"), peak(40, "device"));
}

// Ordinary layers in front: the first returns a number and a stream, the last begins the other streams.
ModelOptions with_layers_in_front(int plain, const char* reversible) {
  ModelOptions model = pyramid(2, reversible);
  const auto begin = [](LayerBuilder& graph, ValueSpan x) -> Values {
    const Value y = testing::convolution(graph, x[0], 6, {.size = {3, 3}, .padding = {1, 1}}, "conv");
    return {graph.silu(y), graph.stream(graph.slice(y, 3, 0, 3))};
  };
  const auto more = [](LayerBuilder& graph, ValueSpan x) -> Values {
    const Value y = testing::convolution(graph, graph.silu(x[0]), 6, {.size = {3, 3}, .padding = {1, 1}}, "conv");
    return {graph.add(x[0], y), graph.couple(x[1], graph.slice(y, 3, 1, 3))};
  };
  const auto end = [](LayerBuilder& graph, ValueSpan x) -> Values {
    const Values streams = graph.streams(halves(graph, x[0]));
    return {streams[0], graph.couple(streams[1], x[1])};
  };
  std::vector<Layer> front{testing::layer(100, "begin", begin)};
  for (int i = 0; i < plain; ++i) front.push_back(testing::layer(static_cast<std::uint32_t>(101 + i), "more", more));
  front.push_back(testing::layer(200, "end", end));
  model.blocks.erase(model.blocks.begin());  // the stem
  model.blocks.insert(model.blocks.begin(), front.begin(), front.end());
  return model;
}

// Inputs of these may wait on the device, on the host, or, where the device is too small for them, on both.
TEST(ReversibleLayers, LayersInFrontKeepTheirInputsAnywhere) {
  for (const char* const compute : {"fp32", "bf16"}) {
    Options options = options_of(with_layers_in_front(20, "fixed"));
    options.precision.compute = compute;
    options.batch.micro_batches = 4;
    Options kept = options;
    kept.transfer.stash = "device";
    const Record expected = custom_record(kept);
    EXPECT_EQ(custom_record(options), expected) << compute;
    const std::uint64_t all = Trainer(options).contract().device_bytes;
    options.device.memory = all - 1;
    Trainer trainer(options);
    EXPECT_EQ(trainer.contract().stash, "split") << compute;
    EXPECT_LT(trainer.contract().device_bytes, all);
    EXPECT_EQ(testing::record_of(trainer, 4), expected) << compute;
  }
}

// Of a stream of 288 bytes, which lies in front of the value that is returned first.
TEST(ReversibleLayers, ResultsOfAnySizeAreKeptWhole) {
  ModelOptions model = with_layers_in_front(2, "fixed");
  model.inputs[0].shape = {4, 6, 2};
  Options options = options_of(model);
  options.batch = {.micro_batch = 1, .micro_batches = 4};
  expect_same_bits_in_all_ways(options, "odd sizes");
}

TEST(ReversibleLayers, LayersBelowMayBeFrozen) {
  for (const std::vector<std::string>& train :
       {std::vector<std::string>{"layers.4.*", "layers.1000.*"}, {"layers.1.*", "layers.2.*"}, {"layers.1000.*"}}) {
    Options options = options_of(pyramid(3, "fixed"));
    options.optimizer.train = train;
    expect_same_bits_in_all_ways(options, train[0]);
  }
}

TEST(ReversibleLayers, AnInterruptedRunGoesOnBitForBit) {
  const testing::TemporaryFolder folder;
  Options options = options_of(pyramid(3, "float"));
  options.checkpoint.directory = folder / "checkpoints";
  testing::expect_resumed(options, "float");
}

std::string refusal_of(const std::vector<Layer>& layers) {
  Options options = options_of(pyramid(1, "fixed"));
  options.model.blocks = layers;
  return testing::refusal([&] { Trainer trainer(options); });
}

TEST(ReversibleLayers, WhatCannotBeUndoneIsRefused) {
  const Layer first = testing::layer(0, "stem", stem), last = testing::layer(1000, "classify", classify);
  const auto expect = [&](const char* message, const Layer& second, std::vector<Layer> more = {}) {
    std::vector<Layer> layers{first, second};
    layers.insert(layers.end(), more.begin(), more.end());
    layers.push_back(last);
    const std::string said = refusal_of(layers);
    EXPECT_NE(said.find(message), std::string::npos) << said;
  };
  expect(
      "which is not rebuilt by then", testing::layer(1, "itself", [](LayerBuilder& graph, ValueSpan x) -> Values {
        return {graph.couple(x[0], branch(graph, x[0], 3, 1, "f")), graph.couple(x[1], branch(graph, x[0], 3, 1, "g"))};
      }));
  expect("which is not rebuilt by then", testing::layer(1, "shared", [](LayerBuilder& graph, ValueSpan x) -> Values {
           const Value f = branch(graph, x[0], 3, 1, "f");
           const Value second = graph.couple(x[1], f);
           return {graph.couple(x[0], graph.add(f, branch(graph, second, 3, 1, "g"))), second};
         }));
  expect("returns a stream to which it has added nothing",
         testing::layer(1, "idle", [](LayerBuilder& graph, ValueSpan x) -> Values {
           return {x[0], graph.couple(x[1], branch(graph, x[0], 3, 1, "f"))};
         }));
  expect("a branch [3, 8, 6, 4] for a stream [3, 8, 6, 3]",
         testing::layer(1, "wide", [](LayerBuilder& graph, ValueSpan x) -> Values {
           return {graph.couple(x[0], branch(graph, x[1], 4, 1, "f")), x[1]};
         }));
  const Layer plain = testing::layer(2, "plain", [](LayerBuilder& graph, ValueSpan x) {
    Values scales;
    for (std::size_t i = 0; i < x.size(); i += 2) scales.push_back(graph.silu(both(graph, x[i], x[i + 1])));
    return scales;
  });
  const Layer again = testing::layer(3, "again", [](LayerBuilder& graph, ValueSpan x) -> Values {
    const Values large = graph.streams(halves(graph, x[0])), small = graph.streams(halves(graph, x[1]));
    return {large[0], large[1], small[0], small[1]};
  });
  expect("is not reversible: its inputs and results are streams", plain);
  expect("layer 1 is reversible, but stands before layer 3, which is not", testing::layer(1, "grow", grow),
         {plain, again, testing::layer(4, "fuse", fuse)});
}

}  // namespace
}  // namespace l2l::reversible_layers
