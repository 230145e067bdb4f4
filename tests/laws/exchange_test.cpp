// Layers that are exchanged between steps (Trainer::set_layers()): a list trains as a model of its layers does, what is
// out of use stays as it is, and the laws hold while lists change.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "eps/checkpoint/manifest.h"
#include "l2l/graph.h"
#include "runtime/plan_run.h"
#include "runtime/tuning/shallow_run.h"
#include "tests/laws/custom_models.h"
#include "tests/laws/small_run.h"
#include "tests/support/fixture.h"
#include "tests/support/refusal.h"

namespace l2l::exchange {
namespace {

namespace fs = std::filesystem;
using testing::Record;
using testing::SmallRun;
using Values = std::vector<Value>;
using Inputs = std::span<const Value>;
using Ids = std::vector<std::uint32_t>;

// x + B f(A x) with dropout, or with attention in front.
Layer::Build block(std::int64_t width, bool attends, double dropout) {
  return [=](LayerBuilder& graph, Inputs inputs) -> Values {
    const std::int64_t columns = graph.columns(inputs[0]);
    const auto dense = [&](Value x, const std::string& name, std::int64_t out) {
      const Value w = graph.matrix(name, graph.columns(x), out, Distribution::normal(0.08));
      return graph.linear(x, w);
    };
    Value x = graph.layer_norm(inputs[0], graph.vector("gain", columns, Distribution::ones()),
                               graph.vector("bias", columns, Distribution::zeros()));
    if (attends) x = graph.attention(dense(x, "qkv", 3 * columns), {.heads = 3, .dropout = dropout});
    const Value y = dense(graph.gelu(dense(x, "up", width)), "down", columns);
    return {graph.add(inputs[0], graph.dropout(y, dropout))};
  };
}

// Ids from 0 on; every third attends, unless all are alike.
Layer layer(std::uint32_t id, double dropout = 0.1, bool alike = false) {
  const bool attends = !alike && id % 3 == 0;
  return {.id = id, .type = attends ? "attends" : "plain", .build = block(attends ? 30 : 50, attends, dropout)};
}

Ids first(std::uint32_t count) {
  Ids ids(count);
  for (std::uint32_t i = 0; i < count; ++i) ids[i] = i;
  return ids;
}

class Exchange : public ::testing::Test {
 protected:
  // `at_first` of `all` layers.
  Options options(std::uint32_t at_first, std::uint32_t all, double dropout = 0.1) const {
    Options options = run_.options("gpt2");
    options.checkpoint.directory.clear();
    options.transfer.stash = "host";
    options.transfer.vocabulary_chunk = 64;  // which else follows from the largest block
    options.optimizer.learning_rate = 1e-3;
    options.schedule = {};
    options.model.dropout = dropout;
    options.model.reserve = LayerReserve{.most_layers = all};
    for (std::uint32_t i = 0; i < all; ++i) {
      (i < at_first ? options.model.blocks : options.model.reserve->layers).push_back(layer(i, dropout));
    }
    return options;
  }
  static Options fixed_options(Options options, const Ids& list, double dropout = 0.1) {
    options.model.reserve.reset();
    options.model.blocks.clear();
    for (const std::uint32_t id : list) options.model.blocks.push_back(layer(id, dropout));
    return options;
  }
  // A perceptron: layers 0, 1, ... with so many hidden ones, and 100.
  static Options custom(int hidden, std::int64_t micro_batch, std::int64_t micro_batches) {
    Options options;
    options.precision.compute = "fp32";
    options.data.train_source = options.data.validation_source = testing::drawn_samples();
    options.model = testing::perceptron(hidden);
    options.device.kind = testing::test_device();
    options.batch = {.micro_batch = micro_batch, .micro_batches = micro_batches};
    options.recompute.policy = "full";
    options.transfer.stash = "host";
    return options;
  }
  // Value and moments of every parameter whose name begins so.
  static std::vector<float> state(Trainer& trainer, const std::string& prefix) {
    std::vector<float> all;
    for (const Parameter& parameter : trainer.parameters()) {
      if (!parameter.name.starts_with(prefix)) continue;
      std::int64_t elements = 1;
      for (const std::int64_t size : parameter.shape) elements *= size;
      std::vector<float> values(static_cast<std::size_t>(elements));
      for (const ParameterPart part : {ParameterPart::value, ParameterPart::moment1, ParameterPart::moment2}) {
        trainer.read_parameter(parameter.name, part, 0, values);
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }

  const SmallRun run_;
};

// The list of a step: of 12, 18, 9 and 12 layers, by fours of steps.
Ids list_of(int step) {
  switch (step / 4 % 4) {
    case 0:
      return first(12);
    case 1:
      return first(18);
    case 2:
      return {17, 3, 4, 0, 9, 10, 15, 1, 2};
    default:
      return {0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11};
  }
}

// Sets a list where another one begins; otherwise the trainer has it, if need be from a checkpoint.
Record record_lists(Trainer& trainer, int steps) {
  Record record;
  for (int i = 0; i < steps; ++i) {
    const auto step = static_cast<int>(trainer.completed_steps());
    if (step % 4 == 0) trainer.set_layers(list_of(step));
    add(record, trainer.step());
  }
  record.hash = trainer.weights_hash();
  return record;
}

TEST_F(Exchange, AListTrainsAsAModelOfItsLayers) {
  for (const Ids& list : {Ids{0, 1, 2, 3, 4, 5}, Ids{7, 3, 0}, Ids{4}, Ids{8, 7, 6, 5, 4, 3, 2, 1, 0}}) {
    SCOPED_TRACE(::testing::PrintToString(list));
    const Options varying = options(6, 9);
    Trainer trainer(varying), alone(fixed_options(varying, list));
    trainer.set_layers(list);
    EXPECT_EQ(trainer.layers(), list);
    for (int step = 0; step < 4; ++step) {
      const StepReport ours = trainer.step(), its = alone.step();
      ASSERT_EQ(ours.loss, its.loss) << step;
      ASSERT_EQ(ours.gradient_norm, its.gradient_norm) << step;
    }
    EXPECT_EQ(trainer.validation_loss(), alone.validation_loss());
    for (const std::uint32_t id : list) {
      const std::string name = "h." + std::to_string(id) + ".";
      EXPECT_EQ(state(trainer, name), state(alone, name)) << name;
    }
    EXPECT_EQ(state(trainer, "wte"), state(alone, "wte"));
  }
}

TEST_F(Exchange, WhatIsOutOfUseStaysAndIsNotCounted) {
  Options varying = options(3, 5);
  varying.checkpoint.directory = run_.folder() / "counts";
  Trainer trainer(varying);
  trainer.step();
  trainer.set_layers(Ids{0, 3});
  const std::vector<float> one = state(trainer, "h.1."), two = state(trainer, "h.2."), four = state(trainer, "h.4."),
                           three = state(trainer, "h.3.");
  for (int i = 0; i < 3; ++i) trainer.step();
  EXPECT_EQ(state(trainer, "h.1."), one);
  EXPECT_EQ(state(trainer, "h.2."), two);
  EXPECT_EQ(state(trainer, "h.4."), four);
  EXPECT_NE(state(trainer, "h.3."), three);
  trainer.set_layers(Ids{2, 1});
  trainer.step();
  EXPECT_NE(state(trainer, "h.1."), one);
  const eps::Manifest manifest = eps::read_manifest(trainer.save());
  const std::map<std::string, std::uint64_t> expected = {{"h.0", 4}, {"h.1", 2}, {"h.2", 2}, {"h.3", 3}, {"h.4", 0}};
  for (const auto& [name, count] : expected) EXPECT_EQ(manifest.update_counts.at(name), count) << name;
  EXPECT_EQ(manifest.state.list, (Ids{2, 1}));
}

// Ways to update, each of which has its own path through the parameter server.
const testing::Ways kUpdates = {
    {"eager", [](Options&) {}},
    {"global clipping", [](Options& o) { o.optimizer.clip = "global", o.optimizer.max_norm = 0.05; }},
    {"per layer", [](Options& o) { o.optimizer.clip = "per_layer", o.optimizer.max_norm = 0.05; }},
    {"after backward", [](Options& o) { o.optimizer.update = "after_backward"; }},
    {"LAMB", [](Options& o) { o.optimizer.name = "lamb"; }},
    {"int8 moments", [](Options& o) { o.optimizer.moments = "int8"; }},
    {"bf16", [](Options& o) { o.precision.compute = "bf16"; }},
    {"fp16, which overflows at first",
     [](Options& o) { o.precision.compute = "fp16", o.precision.loss_scale_growth = 3; }},
    {"two devices",
     [](Options& o) {
       if (o.device.kind == "host") o.device.count = 2;
       o.batch.micro_batches = 4;
     }},
    {"two devices that sum",
     [](Options& o) {
       if (o.device.kind == "host") o.device.count = 2;
       o.batch.micro_batches = 4;
       o.device.sums = "devices";
     }},
    {"nothing recomputed", [](Options& o) { o.recompute.policy = "none"; }},
};

// Interrupted after any step, a run goes on with the list, and ends as if in peace.
TEST_F(Exchange, ListsThatChangeResumeBitForBit) {
  for (const auto& [name, change] : kUpdates) {
    SCOPED_TRACE(name);
    Options varying = options(12, 18);
    change(varying);
    Record expected;
    {
      Trainer trainer(varying);
      expected = record_lists(trainer, 20);
      EXPECT_EQ(trainer.device_peak_bytes(), trainer.contract().device_bytes);
    }
    varying.checkpoint.directory = run_.folder() / ("lists of " + std::string(name));
    Record found;
    std::mt19937 random(3);
    for (int step = 0; step < 20;) {
      Trainer trainer(varying);
      if (step > 0) {
        trainer.resume(varying.checkpoint.directory);
        EXPECT_EQ(trainer.layers(), list_of(step - 1));
      }
      const int steps = std::min(20 - step, 1 + static_cast<int>(random() % 6));
      const Record part = record_lists(trainer, steps);
      found.losses.insert(found.losses.end(), part.losses.begin(), part.losses.end());
      found.norms.insert(found.norms.end(), part.norms.begin(), part.norms.end());
      found.scales.insert(found.scales.end(), part.scales.begin(), part.scales.end());
      found.hash = part.hash;
      trainer.save();
      step += steps;
    }
    EXPECT_EQ(found, expected);
    if (varying.precision.compute == "fp16") {
      EXPECT_GT(std::ranges::count(expected.norms, -1), 0) << "overflows";
    }
  }
}

TEST_F(Exchange, AShallowerModelToMeasureHasTheSameList) {
  const Options fewer = runtime::shallower(runtime::plan_run(options(12, 18)));
  EXPECT_EQ(fewer.model.blocks.size(), 12u);
  EXPECT_NO_THROW(runtime::plan_run(fewer));
}

TEST_F(Exchange, NoWayToRunThemChangesABit) {
  const Options varying = options(12, 18);
  const auto record = [](const Options& each) {
    Trainer trainer(each);
    return record_lists(trainer, 17);
  };
  const Record expected = record(varying);
  const testing::Ways ways = {
      {"threads", [](Options& o) { o.device.threads = 3, o.eps.threads = 2; }},
      {"after backward", [](Options& o) { o.optimizer.update = "after_backward"; }},
      {"fetched further ahead", [](Options& o) { o.transfer.prefetch = 3; }},
      {"one buffer", [](Options& o) { o.eps.gradient_buffers = 1; }},
      {"nothing recomputed", [](Options& o) { o.recompute.policy = "none"; }},
      {"without checksums", [](Options& o) { o.eps.verify = false; }},
  };
  for (const auto& [name, change] : ways) {
    Options other = varying;
    change(other);
    EXPECT_EQ(record(other), expected) << name;
  }
}

// A list may have a layer several times: as layers that share parameters, but for the random numbers.
TEST_F(Exchange, ALayerThatStandsTwiceIsSharedByBoth) {
  for (const auto& [name, change] : kUpdates) {
    SCOPED_TRACE(name);
    Options varying = options(4, 4, /*dropout=*/0);
    varying.model.reserve->most_layers = 7;
    varying.model.reserve->most_uses = 3;
    change(varying);
    Options shared = fixed_options(varying, first(4), /*dropout=*/0);
    const auto again = [&](std::uint32_t id, std::uint32_t of) {
      Layer copy = layer(of, 0);
      copy.id = id;
      copy.shares = of;
      return copy;
    };
    shared.model.blocks = {layer(0, 0), layer(2, 0), again(10, 0), layer(1, 0), again(11, 2), again(12, 0)};
    Trainer trainer(varying), alone(shared);
    trainer.step();  // and another list before
    trainer.set_layers(Ids{0, 2, 0, 1, 2, 0});
    Trainer fresh(varying);
    fresh.set_layers(Ids{0, 2, 0, 1, 2, 0});
    for (int step = 0; step < 3; ++step) {
      EXPECT_NO_THROW(trainer.step());
      const StepReport ours = fresh.step(), its = alone.step();
      ASSERT_EQ(ours.loss, its.loss) << step;
      if (std::isfinite(its.gradient_norm)) {
        ASSERT_EQ(ours.gradient_norm, its.gradient_norm) << step;
      }
    }
    EXPECT_EQ(state(fresh, "h.0."), state(alone, "h.0."));
    EXPECT_EQ(state(fresh, "h.2."), state(alone, "h.2."));
  }
}

// Its further uses draw other numbers than the first one, the same in every run: with these, layers that drop out
// nothing else, and keep what is left, give another loss than by the first one's numbers alone.
TEST_F(Exchange, FurtherUsesHaveRandomNumbersOfTheirOwn) {
  const Layer::Build drops = [](LayerBuilder& graph, Inputs inputs) -> Values {
    const Value gain = graph.vector("gain", graph.columns(inputs[0]), Distribution::ones());
    return {graph.dropout(graph.multiply(inputs[0], gain), 0.5)};
  };
  Options varying = options(1, 1);
  varying.model.blocks = {{.id = 0, .type = "drops", .build = drops}};
  varying.model.reserve = LayerReserve{.most_layers = 2, .most_uses = 2};
  varying.model.hidden = 96;  // of whose rows, dropped out twice, a quarter is left, not a half
  const auto kept = [&](const Ids& ids) {
    Trainer trainer(varying);
    trainer.set_layers(ids);
    return trainer.step().gradient_norm;
  };
  Options same = varying;  // the second use with the first one's numbers: x of which half is 0, times 2 twice
  same.model.blocks[0].build = [](LayerBuilder& graph, Inputs inputs) -> Values {
    const Value gain = graph.vector("gain", graph.columns(inputs[0]), Distribution::ones());
    const Value once = graph.dropout(graph.multiply(inputs[0], gain), 0.5);
    return {graph.scale(graph.multiply(once, gain), 2)};
  };
  Trainer once(same);
  const double twice = kept({0, 0});
  EXPECT_EQ(kept({0, 0}), twice);
  EXPECT_GT(std::abs(once.step().gradient_norm / twice - 1), 1e-3);
}

// Layers without parameters, and frozen ones, at any place: what they leave to their backward visits differs.
TEST_F(Exchange, PlacesTakeWhateverStandsThere) {
  Options varying = custom(2, 3, 4);
  varying.recompute.policy = "none";
  const Layer relu{
      .id = 20, .type = "relu", .build = [](LayerBuilder& graph, Inputs x) -> Values { return {graph.relu(x[0])}; }};
  varying.model.blocks.insert(varying.model.blocks.begin(),
                              {.id = 30, .type = "twice", .build = [](LayerBuilder& graph, Inputs x) -> Values {
                                 return {graph.scale(x[0], 2)};
                               }});
  varying.model.reserve = LayerReserve{.layers = {relu}, .most_layers = 5};
  const std::vector<Ids> lists = {{30, 0, 1, 2}, {30, 0, 20, 1}, {0, 2, 20, 1}, {0, 20}, {30, 0, 20, 2, 1}};
  for (const std::vector<std::string>& train :
       {std::vector<std::string>{}, std::vector<std::string>{"*.1.*", "*.100.*"}}) {
    Options one = varying;
    one.optimizer.train = train;
    for (const Ids& list : lists) {
      Options alone = one;
      alone.model.reserve.reset();
      alone.model.blocks.clear();
      for (const std::uint32_t id : list) {
        const auto is = [&](const Layer& each) { return each.id == id; };
        const auto found = std::ranges::find_if(varying.model.blocks, is);
        alone.model.blocks.push_back(found == varying.model.blocks.end() ? relu : *found);
      }
      alone.model.blocks.push_back(varying.model.blocks.back());
      const bool has_one = std::ranges::count(list, 1u) > 0;
      if (!has_one) std::erase(alone.optimizer.train, "*.1.*");
      Trainer trainer(one), fixed(alone);
      trainer.set_layers(list);
      for (int step = 0; step < 3; ++step)
        EXPECT_EQ(trainer.step().loss, fixed.step().loss) << ::testing::PrintToString(list);
    }
    Trainer trainer(one);
    for (int i = 0; i < 30; ++i) {
      trainer.set_layers(lists[static_cast<std::size_t>(i) % lists.size()]);
      ASSERT_TRUE(std::isfinite(trainer.step().loss));
    }
  }
}

// A layer's statistics move in the steps that use it, by the mean over its uses.
TEST_F(Exchange, StatisticsMoveWhereTheyAreMeasured) {
  Options varying = custom(1, 6, 2);
  const auto norm = [](std::uint32_t id) {
    return testing::layer(id, "norm", [](LayerBuilder& graph, Inputs x) -> Values {
      const std::int64_t channels = graph.columns(x[0]);
      const Value gain = graph.vector("gain", channels, Distribution::ones());
      const Value bias = graph.vector("bias", channels, Distribution::zeros());
      const Value mean = graph.statistic("mean", channels, Distribution::zeros());
      const Value variance = graph.statistic("variance", channels, Distribution::ones());
      return {graph.batch_norm(x[0], gain, bias, mean, variance)};
    });
  };
  varying.model.reserve = LayerReserve{.layers = {norm(7), norm(8)}, .most_layers = 5, .most_uses = 2};
  Trainer trainer(varying);
  const auto variance = [&](int id) {
    std::vector<float> values(16);
    trainer.read_parameter("layers." + std::to_string(id) + ".variance", ParameterPart::value, 0, values);
    return values;
  };
  trainer.set_layers(Ids{0, 7, 1, 7, 8});
  trainer.step();
  const std::vector<float> seven = variance(7), eight = variance(8), ones(16, 1.0f);
  EXPECT_NE(seven, ones);
  EXPECT_NE(eight, ones);
  trainer.set_layers(Ids{0, 8});
  trainer.step();
  EXPECT_EQ(variance(7), seven);
  EXPECT_NE(variance(8), eight);
}

// The other parts of a trainer use the list: BERT, whose embedding ends with a norm that stays, buckets of lengths, and
// texts that are continued.
TEST_F(Exchange, EverythingUsesTheList) {
  Options bert = run_.options("bert");
  bert.checkpoint.directory.clear();
  bert.transfer.stash = "host";
  bert.model.dropout = 0;
  bert.model.reserve = LayerReserve{.layers = {{.id = 3}}, .most_layers = 4};
  bert.model.blocks = {{.id = 0}, {.id = 1}, {.id = 2}};
  Options alone = bert;
  alone.model.reserve.reset();
  alone.model.blocks = {{.id = 3}, {.id = 1}, {.id = 0}};
  Trainer trainer(bert), fixed(alone);
  trainer.set_layers(Ids{3, 1, 0});
  EXPECT_EQ(trainer.step().loss, fixed.step().loss);
  EXPECT_EQ(trainer.validation_loss(), fixed.validation_loss());

  Options texts = options(3, 5, /*dropout=*/0);
  Options other = fixed_options(texts, {4, 0}, /*dropout=*/0);
  Trainer writer(texts), reader(other);
  writer.reserve_generation({.prompts = 1, .longest_prompt = 4, .tokens = 6});
  writer.set_layers(Ids{4, 0});
  const std::vector<std::int32_t> prompt = {97, 98, 99};
  const GenerateOptions how{.tokens = 6, .temperature = 0};
  EXPECT_EQ(writer.generate(prompt, how), reader.generate(prompt, how));
  writer.set_layers(Ids{1, 2, 3});
  EXPECT_NO_THROW(writer.generate(prompt, how));
}

// A hundred lists, one after the other: bytes are those of the contract, and nothing waits for ever.
TEST_F(Exchange, RandomListsStayWithinTheContract) {
  Options varying = options(5, 10);
  varying.model.reserve->most_uses = 2;
  varying.model.reserve->most_layers = 14;
  varying.eps.gradient_buffers = 1;
  Trainer trainer(varying);
  std::mt19937 random(5);
  for (int i = 0; i < 100; ++i) {
    Ids ids;
    for (std::uint32_t k = 0; k < 20; ++k) ids.push_back(k % 10);
    std::shuffle(ids.begin(), ids.end(), random);
    ids.resize(1 + random() % 14);
    trainer.set_layers(ids);
    ASSERT_TRUE(std::isfinite(trainer.step().loss));
    if (i % 10 == 0) {
      ASSERT_TRUE(std::isfinite(*trainer.validation_loss()));
    }
    ASSERT_EQ(trainer.device_peak_bytes(), trainer.contract().device_bytes);
  }
}

// The same device memory with two layers as with two hundred in reserve, of which so many run.
TEST_F(Exchange, DeviceMemoryDoesNotDependOnTheReserve) {
  const auto bytes = [&](std::uint32_t all, std::uint32_t most) {
    Options varying = options(6, all);
    varying.model.reserve->most_layers = most;
    Trainer trainer(varying);
    trainer.step();
    EXPECT_EQ(trainer.device_peak_bytes(), trainer.contract().device_bytes);
    return trainer.device_peak_bytes();
  };
  EXPECT_EQ(bytes(6, 6), bytes(200, 24));
}

// Layers of a custom model, between a first one and the last one, which stay.
TEST_F(Exchange, CustomModelsHaveLists) {
  Options varying = custom(2, 3, 2);
  varying.model.reserve = LayerReserve{.most_layers = 5, .most_uses = 2};
  for (std::uint32_t id : {10, 11}) {
    Layer more = varying.model.blocks[1];
    more.id = id;
    varying.model.reserve->layers.push_back(more);
  }
  Trainer trainer(varying);
  EXPECT_EQ(trainer.layers(), (Ids{0, 1, 2}));
  trainer.step();
  trainer.set_layers(Ids{0, 11, 1, 10});
  Options alone = varying;
  alone.model.reserve.reset();
  alone.model.blocks = {varying.model.blocks[0], varying.model.reserve->layers[1], varying.model.blocks[1],
                        varying.model.reserve->layers[0], varying.model.blocks.back()};
  Trainer fresh(varying), other(alone);
  fresh.set_layers(Ids{0, 11, 1, 10});
  for (int step = 0; step < 3; ++step) {
    EXPECT_NO_THROW(trainer.step());
    EXPECT_EQ(fresh.step().loss, other.step().loss);
  }
  const auto refused = [&](const Ids& ids) { return testing::refusal([&] { trainer.set_layers(ids); }); };
  EXPECT_NE(refused({1, 2}).find("layer 1 reads [3, 16], but what stands before the list gives [3, 12]"),
            std::string::npos)
      << refused({1, 2});
  EXPECT_NE(refused({0, 0}).find("layer 0 reads [3, 12], but layer 0 returns [3, 16]"), std::string::npos);
  EXPECT_NE(refused({0, 100}).find("layer 100 cannot be in a list"), std::string::npos);
  EXPECT_EQ(trainer.layers(), (Ids{0, 11, 1, 10})) << "a refusal changes nothing";
  EXPECT_NO_THROW(trainer.step());
}

// 1,000 random lists, each with layers that stand in it twice, give PyTorch's losses and norms of gradients, and 50 of
// them its losses over 20 steps (tests/fixtures/make_exchange_fixture.py).
TEST_F(Exchange, RandomListsAgreeWithPyTorch) {
  constexpr std::size_t kLists = 1000, kLong = 50, kMost = 12;
  const testing::Fixture fixture("exchange.safetensors");
  const std::vector<float> x = fixture.floats("input.x");
  const std::vector<std::int32_t> classes = fixture.integers("target.class"), all = fixture.integers("lists");
  Options varying;
  varying.model = testing::perceptron(1);
  varying.model.reserve = LayerReserve{.most_layers = kMost, .most_uses = 2};
  for (std::uint32_t id = 2; id < 5; ++id) {
    varying.model.reserve->layers.push_back({.id = id, .type = "hidden", .build = varying.model.blocks[1].build});
  }
  const Layer::Build residual = [](LayerBuilder& graph, Inputs inputs) -> Values {
    const Value u = graph.matrix("u", 20, 16, Distribution::zeros()),
                v = graph.matrix("v", 16, 20, Distribution::zeros());
    const Value y = graph.tanh(graph.linear_transposed(inputs[0], u));
    return {graph.add(inputs[0], graph.linear_transposed(y, v))};
  };
  for (std::uint32_t id = 5; id < 9; ++id) {
    varying.model.reserve->layers.push_back({.id = id, .type = "residual", .build = residual});
  }
  varying.data.train_source = std::make_shared<CallbackSource>(40, 1, [&](const auto& position, const auto& sample) {
    sample.set_input(0, std::span(x).subspan(position.index * 12, 12));
    sample.set_target(0, std::span(classes).subspan(position.index, 1));
    return 1;
  });
  varying.data.order = "sequential";
  varying.device.kind = testing::test_device();
  varying.batch = {.micro_batch = 2, .micro_batches = 2};
  varying.optimizer = {.name = "sgd", .learning_rate = 0.05, .momentum = 0, .weight_decay = 0};
  varying.recompute.policy = "full";
  varying.transfer.stash = "host";
  const auto begin = [&](const Options& options) {
    auto trainer = std::make_unique<Trainer>(options);
    for (const Parameter& parameter : trainer->parameters()) {
      trainer->write_parameter(parameter.name, ParameterPart::value, 0, fixture.floats("initial." + parameter.name));
    }
    return trainer;
  };
  const auto list = [&](std::size_t number) {
    Ids ids;
    for (std::size_t i = 0; i < kMost; ++i) {
      const std::int32_t id = all[number * kMost + i];
      if (id >= 0) ids.push_back(static_cast<std::uint32_t>(id));
    }
    return ids;
  };
  const std::vector<float> losses = fixture.floats("losses"), norms = fixture.floats("norms"),
                           longer = fixture.floats("long");
  Options still = varying;  // always the same minibatch, and no update that changes anything
  still.data.train_source = std::make_shared<CallbackSource>(4, 1, [&](const auto& position, const auto& sample) {
    return varying.data.train_source->read(position, sample);
  });
  still.schedule.rate = [](std::int64_t) { return 0.0; };
  const std::unique_ptr<Trainer> trainer = begin(still);
  for (std::size_t number = 0; number < kLists; ++number) {
    trainer->set_layers(list(number));
    const StepReport report = trainer->step();
    ASSERT_NEAR(report.loss, losses[number], 1e-5 * losses[number]) << number;
    ASSERT_NEAR(report.gradient_norm, norms[number], 1e-5 * norms[number]) << number;
  }
  for (std::size_t number = 0; number < kLong; ++number) {
    const std::unique_ptr<Trainer> training = begin(varying);
    training->set_layers(list(number));
    for (std::size_t step = 0; step < 20; ++step) {
      const float expected = longer[number * 20 + step];
      ASSERT_NEAR(training->step().loss, expected, 1e-4 * expected) << number << ", step " << step;
    }
  }
}

TEST_F(Exchange, WhatWasNotReservedIsRefused) {
  const auto expect = [](const std::string& said, std::initializer_list<const char*> parts) {
    for (const char* const part : parts) EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  Trainer trainer(options(3, 5));
  const auto refused = [&](const Ids& ids) { return testing::refusal([&] { trainer.set_layers(ids); }); };
  expect(refused({}), {"empty list"});
  expect(refused({0, 9}), {"layer 9", "model.reserve"});
  expect(refused({0, 1, 2, 3, 4, 0}), {"6 layers", "most_layers = 5", "1 too many"});
  expect(refused({1, 2, 1}), {"layer 1 stands 2 times", "most_uses = 1"});
  EXPECT_EQ(trainer.layers(), first(3));
  Trainer still(fixed_options(options(3, 5), first(3)));
  expect(testing::refusal([&] { still.set_layers(first(3)); }), {"fixed", "model.reserve"});
  EXPECT_TRUE(still.layers().empty());

  const auto invalid = [&](const std::function<void(Options&)>& change) {
    Options other = options(3, 5);
    change(other);
    return testing::refusal([&] { Trainer wrong(other); });
  };
  expect(invalid([](Options& o) { o.transfer.stash = "auto"; }), {"transfer.stash", "\"host\""});
  expect(invalid([](Options& o) { o.recompute.policy = "auto"; }), {"recompute.policy", "\"full\""});
  expect(invalid([](Options& o) { o.device.execution = "resident"; }), {"device.execution", "\"relay\""});
  expect(invalid([](Options& o) { o.model.reserve->most_layers = 2; }), {"most_layers = 2", "3"});
  expect(invalid([](Options& o) { o.model.reserve->most_layers = 6; }), {"most_layers = 6", "5 layers", "make 5"});
  expect(invalid([](Options& o) { o.model.reserve->most_uses = 0; }), {"most_uses = 0"});
  expect(invalid([](Options& o) {
           o.model.reserve->most_uses = 33;
           o.distributed.nodes = 4;
           o.batch.micro_batches = 4;
         }),
         {"most_uses = 33", "4 processes", "132 gradients"});
  expect(invalid([](Options& o) { o.model.blocks[2].shares = 1; }), {"layer 2", "most_uses"});
  expect(invalid([](Options& o) { o.model.reserve->layers.push_back(layer(0)); }), {"layer 0", "same id"});
  expect(invalid([](Options& o) {
           o.model.blocks.resize(1);
           o.model.reserve->most_layers = 1;
         }),
         {"most_layers = 1", "2 types"});
}

// Before anything is loaded, as manifests show it.
TEST_F(Exchange, AListThatARunCannotGoOnWithIsRefused) {
  Options varying = options(3, 5);
  varying.checkpoint.directory = run_.folder() / "others";
  {
    Trainer trainer(varying);
    trainer.set_layers(Ids{4, 3});
    trainer.step();
    trainer.save();
  }
  const auto refused = [&](Options other) {
    Trainer trainer(other);
    const auto said = testing::refusal([&] { trainer.check_resume(varying.checkpoint.directory, {"model.blocks"}); });
    EXPECT_EQ(testing::refusal([&] { trainer.resume(varying.checkpoint.directory, {"model.blocks"}); }), said);
    return said;
  };
  const auto expect = [](const std::string& said, const std::string& part) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  expect(refused(options(3, 4)), "model.blocks");
  expect(refused(fixed_options(varying, first(5))), "was made with a list of 2 layers in place of model.blocks");
  Options shorter = varying;
  shorter.model.blocks.resize(1);
  for (std::uint32_t id = 1; id < 3; ++id) shorter.model.reserve->layers.push_back(layer(id));
  shorter.model.reserve->most_layers = 2;
  EXPECT_NO_THROW(Trainer(shorter).resume(varying.checkpoint.directory, {"model.blocks"}));
  {
    Trainer trainer(varying);
    trainer.resume(varying.checkpoint.directory);
    trainer.set_layers(Ids{0, 1, 2});
    EXPECT_FALSE(trainer.save().empty()) << "of the same step, with another list";
  }
  expect(refused(shorter), "its list of layers: a list of 3 layers");
  {
    Trainer trainer(varying);
    trainer.set_layers(Ids{4, 3});
    trainer.step();
    trainer.save();
  }
  Trainer same(varying);
  same.resume(varying.checkpoint.directory);
  EXPECT_EQ(same.layers(), (Ids{4, 3}));
}

}  // namespace
}  // namespace l2l::exchange
