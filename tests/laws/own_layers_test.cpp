// Layers that a program describes (include/l2l/graph.h): the laws hold for them as for those of the families.
#include <gtest/gtest.h>

#include <fstream>

#include "l2l/graph.h"
#include "tests/laws/small_run.h"
#include "tests/support/refusal.h"

namespace l2l::own_layers {
namespace {

namespace fs = std::filesystem;
using testing::Record;
using testing::SmallRun;
using Values = std::vector<Value>;
using Inputs = std::span<const Value>;

constexpr double kDeviation = 0.02;

// GPT-2's block, of 24 columns and 3 heads, as models/gpt2.cpp describes it.
Values gpt2_block(LayerBuilder& graph, Inputs inputs) {
  const double residual = kDeviation / std::sqrt(2.0f * 3);
  const auto norm = [&](Value x, const std::string& name) {
    const Value gain = graph.vector(name + ".weight", 24, Distribution::ones());
    return graph.layer_norm(x, gain, graph.vector(name + ".bias", 24, Distribution::zeros()), 1e-5);
  };
  const auto linear = [&](Value x, const std::string& name, std::int64_t out, double deviation) {
    const Value w = graph.matrix(name + ".weight", graph.columns(x), out, Distribution::normal(deviation));
    return graph.linear(x, w, graph.vector(name + ".bias", out, Distribution::zeros()));
  };
  Value x = inputs[0];
  const Value qkv = linear(norm(x, "ln_1"), "attn.c_attn", 72, kDeviation);
  const Value mixed = graph.attention(qkv, {.heads = 3, .dropout = 0.1});
  x = graph.add(x, graph.dropout(linear(mixed, "attn.c_proj", 24, residual), 0.1));
  const Value wide = graph.gelu(linear(norm(x, "ln_2"), "mlp.c_fc", 96, kDeviation), /*exact=*/false);
  return {graph.add(x, graph.dropout(linear(wide, "mlp.c_proj", 24, residual), 0.1))};
}

// Llama's, of 24 columns, 4 heads that share 2, and a gate of 64.
Values llama_block(LayerBuilder& graph, Inputs inputs) {
  const double residual = kDeviation / std::sqrt(2.0f * 3);
  const auto norm = [&](Value x, const std::string& name) {
    return graph.rms_norm(x, graph.vector(name + ".weight", 24, Distribution::ones()), 1e-5);
  };
  Value x = inputs[0];
  const Value normed = norm(x, "input_layernorm");
  const Value projections = graph.matrices(
      {{"self_attn.q_proj.weight", 24}, {"self_attn.k_proj.weight", 12}, {"self_attn.v_proj.weight", 12}}, 24,
      Distribution::normal(kDeviation));
  const Value turned = graph.rotary(graph.linear_transposed(normed, projections), 4, 2);
  const Value mixed = graph.attention(turned, {.heads = 4, .kv_heads = 2});
  const Value out = graph.matrix("self_attn.o_proj.weight", 24, 24, Distribution::normal(residual));
  x = graph.add(x, graph.linear_transposed(mixed, out));
  const Value again = norm(x, "post_attention_layernorm");
  const Value gates =
      graph.matrices({{"mlp.gate_proj.weight", 64}, {"mlp.up_proj.weight", 64}}, 24, Distribution::normal(kDeviation));
  const Value gated = graph.gated(graph.linear_transposed(again, gates));
  const Value down = graph.matrix("mlp.down_proj.weight", 24, 64, Distribution::normal(residual));
  return {graph.add(x, graph.linear_transposed(gated, down))};
}

// x + B tanh(A x), with B = 0 at first where `zero`.
Layer::Build bottleneck(std::int64_t width, bool zero = false) {
  return [=](LayerBuilder& graph, Inputs inputs) -> Values {
    const std::int64_t columns = graph.columns(inputs[0]);
    const Value a = graph.matrix("a", columns, width, Distribution::uniform(0.3));
    const Value b =
        graph.matrix("b", width, columns, zero ? Distribution::zeros() : Distribution::normal(kDeviation * 4));
    return {graph.add(inputs[0], graph.linear(graph.dropout(graph.tanh(graph.linear(inputs[0], a)), 0.2), b))};
  };
}

class OwnLayers : public ::testing::Test {
 protected:
  Options options(const std::string& family = "gpt2") const {
    Options options = run_.options(family);
    options.checkpoint.directory.clear();
    return options;
  }
  // An own layer, a block of the family, and two own layers of one type.
  Options mixed() const {
    Options own = options();
    own.model.blocks = {{7, "narrow", bottleneck(5)},
                        {1},
                        {3, "wide", bottleneck(70)},
                        {2, "wide", bottleneck(70)},
                        {9, "gpt2", gpt2_block}};
    return own;
  }
  static Record record(const Options& options, int steps = 4) { return testing::record_of(options, steps); }

  const SmallRun run_;
};

TEST_F(OwnLayers, AFamilysBlockIsThatOfTheFamilyBitForBit) {
  for (const auto& [family, build] :
       {std::pair<const char*, Layer::Build>{"gpt2", gpt2_block}, {"llama", llama_block}}) {
    for (const char* const compute : {"fp32", "bf16", "fp16"}) {
      for (const char* const samples : {"stream", "packed"}) {
        Options built_in = options(family);
        built_in.precision.compute = compute;
        built_in.data.samples = samples;
        built_in.data.separator = "a";
        Options own = built_in;
        own.model.blocks = {{0, "block", build}, {1, "block", build}, {2, "block", build}};
        EXPECT_EQ(record(own), record(built_in)) << family << " " << compute << " " << samples;
      }
    }
  }
}

// One op and the several that it stands for have the same gradients, up to rounding.
TEST_F(OwnLayers, OpsThatStandForOneAnotherTrainAlike) {
  // Of one matrix: silu(x w) x w.
  const auto square = [](const auto& silu) {
    return [silu](LayerBuilder& graph, Inputs inputs) -> Values {
      const Value y = graph.linear(inputs[0], graph.matrix("w", 24, 24, Distribution::normal(0.3)));
      return {graph.add(inputs[0], graph.multiply(silu(graph, y), y))};
    };
  };
  const auto losses = [&](const Layer::Build& build) {
    Options own = options();
    own.model.dropout = 0;
    own.optimizer.name = "sgd";
    own.optimizer.learning_rate = 0.1;
    own.model.blocks = {{0, "a", build}, {1, "a", build}};
    return record(own, 8).losses;
  };
  const std::vector<double> expected = losses(square([](LayerBuilder& graph, Value x) { return graph.silu(x); }));
  const auto apart = [&](const Layer::Build& build) {
    const std::vector<double> found = losses(build);
    double most = 0;
    for (std::size_t i = 0; i < found.size(); ++i) most = std::max(most, std::abs(found[i] - expected[i]));
    return most;
  };
  EXPECT_LT(apart(square([](LayerBuilder& graph, Value x) { return graph.multiply(x, graph.sigmoid(x)); })), 1e-6);
  EXPECT_GT(apart(square([](LayerBuilder& graph, Value x) { return graph.multiply(x, graph.tanh(x)); })), 1e-4);
  EXPECT_GT(apart(square([](LayerBuilder& graph, Value x) { return graph.relu(x); })), 1e-4);
  // x + x = 2 x.
  const auto doubled = [](const auto& twofold) -> Layer::Build {
    return [twofold](LayerBuilder& graph, Inputs inputs) -> Values {
      return {twofold(graph, graph.linear(inputs[0], graph.matrix("w", 24, 24, Distribution::normal(0.3))))};
    };
  };
  const std::vector<double> sum = losses(doubled([](LayerBuilder& graph, Value x) { return graph.add(x, x); }));
  const std::vector<double> product = losses(doubled([](LayerBuilder& graph, Value x) { return graph.scale(x, 2); }));
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], product[i], 1e-6);
  // relu(x)^2 = x relu(x).
  const auto twice = [](bool squared) -> Layer::Build {
    return [squared](LayerBuilder& graph, Inputs inputs) -> Values {
      const Value y = graph.linear(inputs[0], graph.matrix("w", 24, 24, Distribution::normal(0.3))), r = graph.relu(y);
      return {graph.add(inputs[0], graph.multiply(squared ? r : y, r))};
    };
  };
  const std::vector<double> one = losses(twice(false)), other = losses(twice(true));
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], other[i], 1e-6);
}

TEST_F(OwnLayers, GiveTheSameBitsHoweverTheyAreRun) {
  for (const char* const compute : {"fp32", "bf16"}) {
    Options relay = mixed();
    relay.precision.compute = compute;
    testing::expect_same_bits(relay, [](const Options& o) { return record(o); }, compute,
                              {{"resident layers", [](Options& o) { o.transfer.resident_layers = 2; }},
                               {"prefetch", [](Options& o) { o.transfer.prefetch = 3; }},
                               {"min_cut", [](Options& o) { o.recompute.policy = "min_cut"; }},
                               {"auto", [](Options& o) { o.recompute.policy = "auto"; }}});
  }
}

// Each place has parameters and random numbers of its own, which follow from its id.
TEST_F(OwnLayers, AreToldApartByTheirIds) {
  const auto with = [&](std::uint32_t first, std::uint32_t second) {
    Options own = options();
    own.model.dropout = 0;
    own.model.blocks = {{first, "narrow", bottleneck(5)}, {second, "narrow", bottleneck(5)}};
    return record(own);
  };
  EXPECT_EQ(with(1, 2), with(1, 2));
  EXPECT_NE(with(1, 2), with(2, 1));
  EXPECT_NE(with(1, 2), with(1, 3));
}

std::vector<float> read(Trainer& trainer, const std::string& name, ParameterPart part = ParameterPart::value) {
  for (const Parameter& parameter : trainer.parameters()) {
    if (parameter.name != name) continue;
    std::vector<float> values(static_cast<std::size_t>(parameter.shape[0] * parameter.shape[1]));
    trainer.read_parameter(name, part, 0, values);
    return values;
  }
  throw Error("no " + name);
}

// A step of gradient descent moves what two layers share by what it would move each of two that are equal.
TEST_F(OwnLayers, SharedParametersHaveTheGradientsOfAllTheirUses) {
  Options shared = options();
  shared.model.dropout = 0;
  shared.optimizer = {.name = "sgd", .learning_rate = 0.1, .momentum = 0, .weight_decay = 0};
  shared.schedule = {};
  shared.model.blocks = {{0, "wide", bottleneck(70)}, {1}, {5, "wide", bottleneck(70), /*shares=*/0}, {7, "", {}, 1}};
  Options apart = shared;
  apart.model.blocks = {{0, "wide", bottleneck(70)}, {1}, {5, "wide", bottleneck(70)}, {7}};
  Trainer one(shared), two(apart);
  EXPECT_LT(one.contract().parameters, two.contract().parameters);
  // Wherever the owner stands among those that a shallower model leaves out when steps are measured.
  for (std::uint32_t owner = 0; owner < 4; ++owner) {
    Options measured = shared;
    measured.recompute.policy = "auto";
    measured.model.blocks.clear();
    for (std::uint32_t i = 0; i < 4; ++i) measured.model.blocks.push_back({i, "wide", bottleneck(70)});
    measured.model.blocks.push_back({9, "wide", bottleneck(70), owner});
    EXPECT_NO_THROW(Trainer{measured}) << owner;
  }
  const std::pair<const char*, const char*> names[] = {{"h.0.b", "h.5.b"},
                                                       {"h.1.mlp.c_fc.weight", "h.7.mlp.c_fc.weight"}};
  std::vector<std::vector<float>> before;
  for (const Parameter& parameter : one.parameters()) {
    std::int64_t elements = 1;
    for (const std::int64_t size : parameter.shape) elements *= size;
    std::vector<float> values(static_cast<std::size_t>(elements));
    one.read_parameter(parameter.name, ParameterPart::value, 0, values);
    std::string other = parameter.name;
    two.write_parameter(other, ParameterPart::value, 0, values);
    for (const auto& [from, to] : {std::pair("h.0.", "h.5."), std::pair("h.1.", "h.7.")}) {
      if (!other.starts_with(from)) continue;
      two.write_parameter(to + other.substr(4), ParameterPart::value, 0, values);
    }
  }
  for (const auto& [name, twin] : names) before.push_back(read(one, name));
  EXPECT_EQ(one.validation_loss(), two.validation_loss());
  const StepReport report = one.step();
  EXPECT_EQ(two.step().loss, report.loss);
  for (std::size_t n = 0; n < 2; ++n) {
    const std::vector<float> now = read(one, names[n].first), first = read(two, names[n].first),
                             second = read(two, names[n].second);
    double error = 0, moved = 0, by_one = 0;
    for (std::size_t i = 0; i < now.size(); ++i) {
      const double was = before[n][i], expected = was + (first[i] - was) + (second[i] - was);
      error = std::max(error, std::abs(now[i] - expected));
      by_one = std::max(by_one, std::abs(static_cast<double>(now[i]) - first[i]));
      moved = std::max(moved, std::abs(now[i] - was));
    }
    EXPECT_LT(error, 1e-6) << names[n].first;
    EXPECT_GT(moved, 1e-4);
    EXPECT_GT(by_one, 1e-4) << "the gradient of one use alone";
  }
  // However it is run, and resumed.
  shared.optimizer = {};
  const Record expected = record(shared);
  Options resident = shared, held = shared, saved = shared;
  resident.device.execution = "resident";
  held.optimizer.update = "after_backward";
  EXPECT_EQ(record(resident), expected);
  EXPECT_EQ(record(held), expected);
  saved.checkpoint.directory = run_.folder() / "shared";
  {
    Trainer trainer(saved);
    testing::record_of(trainer, 2);
    trainer.save();
  }
  Trainer trainer(saved);
  trainer.resume(saved.checkpoint.directory);
  EXPECT_EQ(testing::record_of(trainer, 2).hash, expected.hash);
}

TEST_F(OwnLayers, DeviceMemoryDoesNotDependOnDepth) {
  const auto bytes = [&](std::uint32_t layers) {
    Options own = options();
    own.transfer.stash = "host";
    for (std::uint32_t i = 0; i < layers; ++i) {
      own.model.blocks.push_back({i, i % 3 == 0 ? "wide" : "narrow", bottleneck(i % 3 == 0 ? 70 : 5)});
    }
    Trainer trainer(own);
    trainer.step();
    EXPECT_EQ(trainer.device_peak_bytes(), trainer.contract().device_bytes);
    return trainer.device_peak_bytes();
  };
  EXPECT_EQ(bytes(6), bytes(60));
}

TEST_F(OwnLayers, ResumeBitForBit) {
  Options own = mixed();
  own.checkpoint.directory = run_.folder() / "own";
  const Record whole = record(own, 6);
  fs::path checkpoint;
  {
    Trainer trainer(own);
    testing::record_of(trainer, 4);
    checkpoint = trainer.save();
  }
  EXPECT_FALSE(fs::exists(checkpoint / "config.json")) << "no model that other programs could load";
  Trainer trainer(own);
  trainer.resume(own.checkpoint.directory);
  EXPECT_EQ(testing::record_of(trainer, 2).hash, whole.hash);
  const auto refused = [&](std::vector<Layer> blocks, const std::vector<std::string>& allowed = {}) {
    Options other = own;
    other.model.blocks = std::move(blocks);
    return testing::refusal([&] { Trainer(other).resume(own.checkpoint.directory, allowed); });
  };
  std::vector<Layer> fewer = own.model.blocks, turned = fewer;
  fewer.erase(fewer.begin());
  std::swap(turned[2], turned[3]);
  const std::string said = refused(fewer, {"model.blocks"});
  EXPECT_NE(said.find(R"(model.blocks = ["1", "3 wide", "2 wide", "9 gpt2"] (was ["7 narrow", "1")"), std::string::npos)
      << said;
  EXPECT_NE(refused(turned).find("model.blocks"), std::string::npos);
  EXPECT_EQ(refused(turned, {"model.blocks"}), "(none)");
  Options wider = own;
  wider.model.blocks[0].build = bottleneck(6);
  EXPECT_THROW(Trainer(wider).resume(own.checkpoint.directory), BadInput);
}

// Layers are put into a pretrained model, and blocks of it left out.
TEST_F(OwnLayers, APretrainedModelIsEdited) {
  Options whole = run_.options();
  whole.run.steps = 2;
  const fs::path checkpoint = Trainer(whole).run().checkpoint;
  Options edited = options();
  edited.model = {.pretrained = checkpoint, .sequence = 13, .dropout = 0.1};
  const auto loss = [&](std::vector<Layer> blocks) {
    Options with = edited;
    with.model.blocks = std::move(blocks);
    return Trainer(with).validation_loss().value();
  };
  const double expected = loss({});
  EXPECT_EQ(loss({{0}, {1}, {2}}), expected);
  EXPECT_EQ(loss({{0}, {100, "adapter", bottleneck(4, /*zero=*/true)}, {1}, {2}}), expected);
  EXPECT_NE(loss({{0}, {100, "adapter", bottleneck(4)}, {1}, {2}}), expected);
  EXPECT_NE(loss({{0}, {2}}), expected);
  EXPECT_NE(loss({{0}, {2}, {1}}), expected);
  EXPECT_NE(testing::refusal([&] { loss({{0}, {3}}); }).find("missing tensors"), std::string::npos);
  EXPECT_NE(loss({{0}, {1}, {2, "", {}, 1}}), expected);
  // Its parameters begin as it says, whatever the file calls its own.
  EXPECT_NE(loss({{0},
                  {1, "own",
                   [](LayerBuilder& graph, Inputs inputs) -> Values {
                     const Value w = graph.matrix("attn.c_proj.weight", 24, 24, Distribution::zeros());
                     return {graph.add(inputs[0], graph.linear(inputs[0], w))};
                   }},
                  {2}}),
            expected);
  // Only what was put in is trained.
  Options frozen = edited;
  frozen.model.blocks = {{0}, {100, "adapter", bottleneck(4, /*zero=*/true)}, {1}, {2}};
  frozen.optimizer.train = {"h.100.*"};
  Trainer trainer(frozen);
  EXPECT_EQ(trainer.contract().trained_parameters, 2 * 4 * 24);
  const double before = trainer.validation_loss().value();
  testing::record_of(trainer, 3);
  EXPECT_NE(trainer.validation_loss().value(), before);
}

TEST_F(OwnLayers, ContinueTextsWithACacheAsWithout) {
  Options own = options("llama");
  own.model.blocks = {{0, "block", llama_block}, {4, "narrow", bottleneck(5)}, {1, "block", llama_block}};
  const std::vector<std::int32_t> prompt{97, 98, 99};
  const GenerateOptions greedy{.tokens = 8, .temperature = 0};
  own.model.kv_heads = 4;  // of the model's own blocks, which have no say
  Trainer plain(own), cached(own);
  cached.reserve_generation({.prompts = 1, .longest_prompt = 3, .tokens = 8});
  EXPECT_EQ(plain.generate(prompt, greedy), cached.generate(prompt, greedy));
  // Each attention of a layer has a cache of its own.
  Options twice = own;
  twice.model.blocks = {{0, "two", [](LayerBuilder& graph, Inputs inputs) {
                           Values x{inputs[0]};
                           for (const char* const name : {"first", "second"}) {
                             const Value w = graph.matrix(name, 72, 24, Distribution::normal(0.5));
                             x[0] = graph.add(x[0], graph.attention(graph.linear_transposed(x[0], w), {.heads = 3}));
                           }
                           return x;
                         }}};
  Trainer two_plain(twice), two_cached(twice);
  two_cached.reserve_generation({.prompts = 1, .longest_prompt = 3, .tokens = 8});
  EXPECT_EQ(two_plain.generate(prompt, greedy), two_cached.generate(prompt, greedy));
  const auto refused = [&](const Layer::Build& build) {
    Options other = own;
    other.model.blocks = {{0, "odd", build}};
    return testing::refusal(
        [&] { Trainer(other).reserve_generation({.prompts = 1, .longest_prompt = 3, .tokens = 8}); });
  };
  const auto sees_all = [](LayerBuilder& graph, Inputs inputs) -> Values {
    const Value w = graph.matrix("w", 72, 24, Distribution::normal(0.5));
    return {graph.attention(graph.linear_transposed(inputs[0], w), {.heads = 3, .causal = false})};
  };
  const auto by_length = [](LayerBuilder& graph, Inputs inputs) -> Values {
    const Value a = graph.matrix("a", 24, graph.sequence(), Distribution::normal(0.5));
    const Value b = graph.matrix("b", graph.sequence(), 24, Distribution::normal(0.5));
    return {graph.linear(graph.linear(inputs[0], a), b)};
  };
  EXPECT_NE(refused(sees_all).find("not causal"), std::string::npos);
  own.model.blocks = {{0, "odd", sees_all}};
  EXPECT_NE(testing::refusal([&] { Trainer(own).generate(prompt, greedy); }).find("is not causal: the model sees both"),
            std::string::npos);
  const auto ignore = [](std::int64_t, std::int64_t, std::span<const float>) {};
  EXPECT_NE(testing::refusal([&] { Trainer(own).logits(prompt, ignore); }).find("all of which the model sees at once"),
            std::string::npos);
  own.data = {};
  own.data.train_source = std::make_shared<MemorySource>(std::vector<MemorySource::Sample>(8, {{1, 2, 3}}));
  EXPECT_NE(testing::refusal([&] { Trainer{own}; }).find("would see the padding behind short samples"),
            std::string::npos);
  for (const char* const samples : {"packed", "stream"}) {
    set_option(own, std::string("data.samples=") + samples);
    EXPECT_GT(Trainer(own).step().loss, 0) << samples;
  }
  EXPECT_NE(refused(by_length).find("length of sequences"), std::string::npos);
}

// The result of attention, which is costly to make again.
TEST_F(OwnLayers, ResultsThatTheBackwardPassReadsAreKept) {
  Options own = options();
  own.model.blocks = {{0, "attention", [](LayerBuilder& graph, Inputs inputs) -> Values {
                         const Value w = graph.matrix("w", 72, 24, Distribution::normal(0.5));
                         return {graph.attention(graph.linear_transposed(inputs[0], w), {.heads = 3, .dropout = 0.1})};
                       }}};
  const Record expected = record(own);
  for (const char* const policy : {"none", "selective", "min_cut", "auto"}) {
    own.recompute.policy = policy;
    EXPECT_EQ(record(own), expected) << policy;
  }
}

TEST_F(OwnLayers, WhatIsDescribedWronglyIsRefused) {
  const auto refused = [&](std::vector<Layer> blocks, const std::string& message) {
    Options own = options();
    own.model.blocks = std::move(blocks);
    const std::string said = testing::refusal([&] { Trainer{own}; });
    EXPECT_NE(said.find(message), std::string::npos) << said;
  };
  const auto of = [](const auto& build) {
    return std::vector<Layer>{
        {5, "odd", [=](LayerBuilder& graph, Inputs inputs) -> Values { return {build(graph, inputs[0])}; }}};
  };
  refused({{1, "a", bottleneck(4)}, {1, "b", bottleneck(5)}}, "layer 1 (b): another layer has the same id");
  refused({{1, "", bottleneck(4)}}, "layer 1: has no type");
  refused({{1, "a"}}, "layer 1 (a): has a type, but nothing that builds it");
  refused({{1, "a", bottleneck(4), 2}, {2, "a", bottleneck(4)}},
          "layer 1 (a): shares the parameters of layer 2, which");
  refused({{1, "a", bottleneck(4)}, {2, "b", bottleneck(4), 1}},
          "layer 2 (b): shares the parameters of layer 1, which");
  refused({{1}, {2, "", {}, 1}, {3, "", {}, 2}}, "layer 3: shares the parameters of layer 2, which");
  refused({{1, "a", bottleneck(4)}, {2, "a", bottleneck(5)}}, "layer 2 of type \"a\" is another graph");
  refused({{5, "odd", [](LayerBuilder&, Inputs) { return Values(); }}}, "layer 5 (odd): returns no value");
  refused(of([](LayerBuilder&, Value x) { return x; }), "layer 5 (odd): returns its input");
  refused({{5, "odd", [](LayerBuilder&, Inputs) -> Values { throw std::runtime_error("no such table"); }}},
          "layer 5 (odd): no such table");
  refused(of([](LayerBuilder& graph, Value x) {
            const Value both = graph.vector("both", 24, Distribution::ones());
            return graph.layer_norm(x, both, both);
          }),
          "layer 5 (odd): layer_norm: parameter both is gain and bias at once");
  refused(of([](LayerBuilder& graph, Value x) {
            return graph.add(graph.scale(x, 0), graph.vector("v", 24, Distribution::ones()));
          }),
          "(none)");
  refused({{5, "odd",
            [](LayerBuilder& graph, Inputs inputs) -> Values {
              return {graph.tanh(inputs[0]), inputs[0]};
            }},
           {6, "other", [](LayerBuilder& graph, Inputs inputs) -> Values { return {graph.tanh(inputs[0])}; }}},
          "layer 6 (other): does not read its input x1 [26, 24]");
  refused(of([](LayerBuilder& graph, Value x) {
            graph.vector("v", 24, Distribution::ones());
            return graph.rms_norm(x, graph.vector("v", 24, Distribution::ones()));
          }),
          "layer 5 (odd): parameter v is declared twice");
  refused(of([](LayerBuilder& graph, Value x) { return graph.rms_norm(x, graph.vector("a b", 24, {})); }),
          "parameter \"a b\": a name has");
  refused(of([](LayerBuilder& graph, Value x) {
            return graph.rms_norm(x, graph.vector("v", 24, Distribution::normal(-1)));
          }),
          "parameter v: begins with a scale of -1");
  refused(of([](LayerBuilder&, Value) { return Value{}; }), "layer 5 (odd): a value is used that");
  const auto first = std::make_shared<Value>();
  const auto keeps = [=](LayerBuilder& graph, Inputs inputs) -> Values { return {graph.tanh(*first = inputs[0])}; };
  const auto takes = [=](LayerBuilder& graph, Inputs inputs) -> Values { return {graph.add(inputs[0], *first)}; };
  refused({{1, "keeps", keeps}, {2, "takes", takes}},
          "layer 2 (takes): a value is used that this graph has not made: it");
  refused(of([](LayerBuilder& graph, Value x) {
            return graph.linear(x, graph.matrix("w", 24, 25, Distribution::normal(1)));
          }),
          "what stands before the head returns [26, 25]; it must be one value, [26, 24]");
  refused(of([](LayerBuilder& graph, Value x) {
            return graph.linear(x, graph.matrix("w", 23, 24, Distribution::normal(1)));
          }),
          "layer 5 (odd): ");
  refused(of([](LayerBuilder& graph, Value) { return graph.tanh(graph.matrix("w", 26, 24, Distribution::normal(1))); }),
          "layer 5 (odd): parameter w stands where");
  refused(of([](LayerBuilder& graph, Value x) { return graph.linear_transposed(x, x); }), "where a parameter is taken");
  refused(of([](LayerBuilder& graph, Value x) { return graph.dropout(x, 1.5); }), "dropout probability 1.5");
  refused(of([](LayerBuilder& graph, Value x) { return graph.attention(x, {.heads = 5}); }), "layer 5 (odd): ");
  Options reversible = options();
  reversible.model.reversible = "float";
  reversible.model.blocks = {{0}, {1}};
  EXPECT_NE(testing::refusal([&] { Trainer{reversible}; }).find("reversible"), std::string::npos);
  Options adapted = options();
  adapted.lora.rank = 2;
  adapted.model.blocks = {{0}, {1}};
  EXPECT_NE(testing::refusal([&] { Trainer{adapted}; }).find("lora.rank"), std::string::npos);
}

}  // namespace
}  // namespace l2l::own_layers
