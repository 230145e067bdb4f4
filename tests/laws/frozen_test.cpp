// Frozen parameters (optimizer.train): they stay as they are to the bit, cost no master, no moments, no gradients and
// no way back below the lowest layer that is trained; what is trained gets the gradients that it gets in full training.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "l2l/l2l.h"
#include "tests/laws/gradients.h"
#include "tests/laws/small_run.h"
#include "tests/support/refusal.h"

namespace l2l::frozen_law {
namespace {

using testing::Gradients;
using testing::Record;
using testing::SmallRun;

// What is trained of a model with these groups.
using Choice = std::function<bool(const ParameterSpec& parameter, std::size_t index)>;

struct Case {
  const char* family;
  const char* name;
  Choice trains;
};

bool ends_with(const std::string& name, const char* end) { return name.ends_with(end); }
bool is_norm(const std::string& name) {
  return name.find("norm") != std::string::npos || name.find("Norm") != std::string::npos ||
         name.find("ln_") != std::string::npos;
}
// Parameters that are trained together or not at all: the gains of queries and keys, the head's table and bias.
bool goes_with_another(const std::string& name) {
  return name.find("k_norm") != std::string::npos || name.find("q_norm") != std::string::npos ||
         ends_with(name, "predictions.bias") || ends_with(name, "lm_head.bias") || ends_with(name, "decoder.bias");
}

const Case kChoices[] = {
    {"", "norms", [](const ParameterSpec& p, std::size_t) { return is_norm(p.name); }},
    {"", "biases",
     [](const ParameterSpec& p, std::size_t) { return ends_with(p.name, ".bias") && !goes_with_another(p.name); }},
    {"", "matrices_of_two_blocks",
     [](const ParameterSpec& p, std::size_t) {
       const bool of_a_block = p.name.find(".1.") != std::string::npos || p.name.find(".2.") != std::string::npos;
       return of_a_block && p.shape.rank() == 2;
     }},
    {"", "every_third", [](const ParameterSpec& p, std::size_t i) { return i % 3 == 1 && !goes_with_another(p.name); }},
    {"", "tables", [](const ParameterSpec& p, std::size_t i) { return i == 0 || ends_with(p.name, "lm_head.weight"); }},
};

class Frozen : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  Options options() const {
    Options options = run_.options(std::get<0>(GetParam()));
    options.model.dropout = 0.1;
    if (!supports_dropout()) {
      options.model.dropout = 0;
      options.model.attention_bias = options.model.mlp_bias = true;  // Llama has no biases else
    }
    return options;
  }
  // With the names that the choice trains.
  Options frozen() const {
    Options some = options();
    const runtime::RunPlan plan = runtime::plan_run(some);
    std::size_t index = 0;
    const Case& choice = kChoices[std::get<1>(GetParam())];
    for (const GroupSpec& group : plan.model.layout.groups) {
      for (const ParameterSpec& parameter : group.parameters) {
        if (choice.trains(parameter, index++)) some.optimizer.train.push_back(parameter.name);
      }
    }
    EXPECT_FALSE(some.optimizer.train.empty());
    return some;
  }
  static Record record(const Options& options, int steps = 3) { return testing::record_of(options, steps); }
  // Of thirteen tokens.
  static std::vector<float> logits(Trainer& trainer) {
    const std::vector<std::int32_t> tokens = {97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109};
    std::vector<float> all;
    trainer.logits(tokens, [&](std::int64_t, std::int64_t, std::span<const float> values) {
      all.insert(all.end(), values.begin(), values.end());
    });
    return all;
  }
  static double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
    EXPECT_EQ(a.size(), b.size());
    double apart = 0, size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      apart += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
      size += std::pow(static_cast<double>(a[i]), 2);
    }
    return std::sqrt(apart / size);
  }

  const SmallRun run_;

 private:
  bool supports_dropout() const {
    const std::string family = std::get<0>(GetParam());
    return family == "gpt2" || family == "bert" || family == "roberta";
  }
};

// Masters, and the first moments after a step, of trained parameters.
Gradients after_a_step(const Options& options) {
  const runtime::RunPlan plan = runtime::plan_run(options);
  runtime::Engine engine(plan, nullptr);
  engine.minibatch().draw(plan.model);
  engine.train(0, 1e-3);
  engine.store().complete_updates();
  Gradients gradients;
  const auto& groups = plan.model.layout.groups;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t i = 0; i < groups[group].parameters.size(); ++i) {
      const ParameterSpec& parameter = groups[group].parameters[i];
      if (!parameter.trained) continue;
      std::vector<float>& moment = gradients[parameter.name];
      moment.resize(static_cast<std::size_t>(parameter.shape.elements()));
      engine.store().read(static_cast<GroupIndex>(group), i, eps::StatePart::moment1, 0, moment);
    }
  }
  return gradients;
}

TEST_P(Frozen, WhatIsTrainedHasTheGradientsOfFullTraining) {
  const Options some = frozen();
  for (const std::int64_t chunk : {0, 72}) {
    Options full = options(), part = some;
    full.transfer.vocabulary_chunk = part.transfer.vocabulary_chunk = chunk;
    const Gradients expected = after_a_step(full), found = after_a_step(part);
    EXPECT_EQ(found.size(), some.optimizer.train.size());
    EXPECT_LE(testing::difference(found, expected), 1e-6);
    // Negative control: of another minibatch.
    part.run.seed = full.run.seed + 1;
    EXPECT_GT(testing::difference(after_a_step(part), expected), 1e-3);
  }
}

TEST_P(Frozen, BitsDoNotDependOnHowTheRunIsExecuted) {
  const Options some = frozen();
  Options resident = some, host = some, saved = some, held = some, devices = some;
  resident.device.execution = "resident";
  host.transfer.stash = "host";
  host.transfer.resident_layers = 1;
  saved.recompute.policy = "none";
  saved.transfer.stash = "host";
  held.optimizer.update = "after_backward";
  const Record first = record(some);
  EXPECT_EQ(record(resident), first);
  EXPECT_EQ(record(host), first);
  EXPECT_EQ(record(saved), first);
  EXPECT_EQ(record(held), first);
  EXPECT_NE(record(options()), first);
}

// Bytes of a layer's parts as they cross the link, from the names alone.
struct LayerBytes {
  std::uint64_t wire = 0, trained = 0;
};

TEST_P(Frozen, LinkAndHostBytesFollowTheFormulas) {
  const Options some = frozen();
  Options options = some;
  options.precision.compute = "bf16";
  options.transfer.stash = "host";
  const runtime::RunPlan plan = runtime::plan_run(options);
  const models::Model& model = plan.model;
  const std::set<std::string> names(options.optimizer.train.begin(), options.optimizer.train.end());
  std::vector<LayerBytes> layers;
  std::uint64_t frozen = 0, trained = 0;
  for (const LayerSpec& layer : model.layout.layers) {
    LayerBytes& bytes = layers.emplace_back();
    bytes.wire = 2 * static_cast<std::uint64_t>(layer.elements);
    for (const LayerPart& part : layer.parts) {
      for (const ParameterSpec& p : model.layout.groups[static_cast<std::size_t>(part.group)].parameters) {
        if (names.contains(p.name)) bytes.trained += 2 * static_cast<std::uint64_t>(p.shape.elements());
      }
    }
  }
  for (const GroupSpec& group : model.layout.groups) {
    for (const ParameterSpec& p : group.parameters) {
      (names.contains(p.name) ? trained : frozen) += static_cast<std::uint64_t>(p.shape.elements());
    }
  }
  const auto lowest = static_cast<std::size_t>(std::min<std::ptrdiff_t>(
      model.head(), std::ranges::find_if(layers, [](const LayerBytes& l) { return l.trained > 0; }) - layers.begin()));
  LinkCounters expected;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const bool block = model.is_block(static_cast<int>(layer));
    const bool stays = static_cast<int>(layer) == model.head() - 1;  // while the head runs
    expected.weights_h2d += layers[layer].wire * (block && layer >= lowest && !stays ? 2 : 1);
    expected.gradients_d2h += layers[layer].trained;
    if (block && layer >= lowest) expected.stash_d2h += model.activation_bytes() * 3;
  }
  Trainer trainer(options);
  trainer.step();
  const LinkCounters counters = trainer.link_counters();
  EXPECT_EQ(counters.weights_h2d, expected.weights_h2d);
  EXPECT_EQ(counters.stash_d2h, expected.stash_d2h);
  EXPECT_EQ(counters.stash_h2d, expected.stash_d2h);
  // Parameters of odd sizes are padded to eight elements each.
  EXPECT_GE(counters.gradients_d2h, expected.gradients_d2h);
  EXPECT_LE(counters.gradients_d2h, expected.gradients_d2h + 16 * names.size() * 2);
  const eps::StoreBytes store = eps::ParameterStore::bytes_needed(model.layout, plan.store);
  const std::uint64_t state = 2 * frozen + 12 * trained, room = 8192 * model.layout.groups.size();
  EXPECT_GE(store.state, state);
  EXPECT_LE(store.state, state + room);
  EXPECT_EQ(trainer.contract().trained_parameters, static_cast<std::int64_t>(trained));
}

INSTANTIATE_TEST_SUITE_P(All, Frozen,
                         ::testing::Combine(::testing::Values("gpt2", "bert", "llama", "llama_tied"),
                                            ::testing::Range(0, static_cast<int>(std::size(kChoices)))),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" + kChoices[std::get<1>(info.param)].name;
                         });

// Every parameter, by name.
Gradients masters(const runtime::RunPlan& plan, const eps::ParameterStore& store) {
  Gradients values;
  const auto& groups = plan.model.layout.groups;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t i = 0; i < groups[group].parameters.size(); ++i) {
      const ParameterSpec& parameter = groups[group].parameters[i];
      std::vector<float>& master = values[parameter.name];
      master.resize(static_cast<std::size_t>(parameter.shape.elements()));
      store.read(static_cast<GroupIndex>(group), i, eps::StatePart::master, 0, master);
    }
  }
  return values;
}

TEST(FrozenParameters, StayAsTheyAreForAThousandSteps) {
  const SmallRun run;
  for (const char* const compute : {"fp32", "bf16", "fp16"}) {
    Options options = run.options("gpt2");
    options.precision.compute = compute;
    options.optimizer.train = {"h.1.*", "*ln_f*"};
    const runtime::RunPlan plan = runtime::plan_run(options);
    runtime::Engine engine(plan, nullptr);
    const Gradients before = masters(plan, engine.store());
    for (std::uint64_t step = 0; step < 1000; ++step) {
      engine.minibatch().draw(plan.model);
      engine.train(step, 1e-3);
    }
    engine.store().complete_updates();
    const Gradients after = masters(plan, engine.store());
    for (const auto& [name, values] : before) {
      const bool trained = name.starts_with("h.1.") || name.starts_with("ln_f");
      EXPECT_EQ(values == after.at(name), !trained) << compute << " " << name;
    }
  }
}

TEST(FrozenParameters, RunsResumeToTheBit) {
  const SmallRun run;
  Options options = run.options("bert");
  options.precision.compute = "bf16";
  options.optimizer.train = {"*layer.1.*", "*LayerNorm*"};
  Record whole, first, second;
  {
    Trainer trainer(options);
    whole = testing::record_of(trainer, 6);
  }
  {
    Trainer trainer(options);
    first = testing::record_of(trainer, 3);
    trainer.save();
  }
  Trainer trainer(options);
  trainer.resume(options.checkpoint.directory);
  second = testing::record_of(trainer, 3);
  EXPECT_EQ(second.hash, whole.hash);
  EXPECT_TRUE(std::equal(second.losses.begin(), second.losses.end(), whole.losses.begin() + 3));
  Options other = options;
  other.optimizer.train = {"*layer.1.*"};
  Trainer changed(other);
  EXPECT_NE(testing::refusal([&] { changed.resume(options.checkpoint.directory); }).find("optimizer.train"),
            std::string::npos);
}

TEST(FrozenParameters, PatternsThatNameNothingAreRefused) {
  const SmallRun run;
  Options options = run.options("gpt2");
  options.optimizer.train = {"h.0.*", "h.7.*"};
  const std::string message = testing::refusal([&] { Trainer trainer(options); });
  EXPECT_NE(message.find("optimizer.train: \"h.7.*\" names no parameter"), std::string::npos) << message;
  EXPECT_NE(message.find("h.0.ln_1.weight"), std::string::npos) << message;
}

// What a step changes, by parameter.
Gradients changes(const Options& options) {
  const runtime::RunPlan plan = runtime::plan_run(options);
  runtime::Engine engine(plan, nullptr);
  engine.minibatch().draw(plan.model);
  const Gradients before = masters(plan, engine.store());
  engine.train(0, 1e-3);
  engine.store().complete_updates();
  Gradients change = masters(plan, engine.store());
  for (auto& [name, values] : change) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= before.at(name)[i];
  }
  return change;
}

// SGD's step is its learning rate times a gradient that is the same in all of these runs.
TEST(ParameterGroups, HaveLearningRatesAndDecayOfTheirOwn) {
  const SmallRun run;
  Options plain = run.options("gpt2");
  plain.optimizer.name = "sgd";
  plain.optimizer.learning_rate = 1e-3;
  plain.optimizer.weight_decay = 0;
  Options groups = plain, layers = plain, decays = plain;
  groups.optimizer.group = {{.parameters = {"*.1.*bias"}, .learning_rate = 4e-3},
                            {.parameters = {"*"}, .learning_rate = 2e-3}};
  layers.optimizer.layer_decay = 0.5;
  decays.optimizer.group = {{.parameters = {"ln_f.weight"}, .weight_decay = 0.5}};
  const Gradients one = changes(plain), two = changes(groups), three = changes(layers), four = changes(decays);
  const auto ratio = [&](const Gradients& other, const std::string& name) {
    return testing::norm_of(other.at(name)) / testing::norm_of(one.at(name));
  };
  EXPECT_NEAR(ratio(two, "h.1.mlp.c_fc.bias"), 4, 1e-2);
  EXPECT_NEAR(ratio(two, "h.0.mlp.c_fc.bias"), 2, 1e-2);
  EXPECT_NEAR(ratio(two, "wte.weight"), 2, 1e-2);
  EXPECT_NEAR(ratio(three, "ln_f.weight"), 1, 1e-2);
  EXPECT_NEAR(ratio(three, "h.2.mlp.c_fc.weight"), 0.5, 1e-2);
  EXPECT_NEAR(ratio(three, "h.0.mlp.c_fc.weight"), 0.125, 1e-2);
  EXPECT_NEAR(ratio(three, "wpe.weight"), 0.0625, 1e-2);
  // Decay of weights that are about 1 takes learning rate x decay of them.
  for (std::size_t i = 0; i < one.at("ln_f.weight").size(); ++i) {
    EXPECT_NEAR(one.at("ln_f.weight")[i] - four.at("ln_f.weight")[i], 1e-3 * 0.5, 1e-5);
  }
  EXPECT_EQ(four.at("wte.weight"), one.at("wte.weight"));
  Options nothing = plain;
  nothing.optimizer.group = {{.parameters = {"h.9.*"}, .learning_rate = 1}};
  EXPECT_NE(testing::refusal([&] { runtime::plan_run(nothing); }).find("optimizer.group: \"h.9.*\" names no parameter"),
            std::string::npos);
  nothing.optimizer.group = {{.parameters = {"h.0.*"}}};
  EXPECT_NE(testing::refusal([&] { runtime::plan_run(nothing); }).find("sets nothing"), std::string::npos);
}

// Adapters beside a small model, whose directory a run of its own has written.
class Adapters : public ::testing::TestWithParam<const char*> {
 protected:
  Adapters() {
    Options whole = run_.options(GetParam());
    whole.model.dropout = 0;
    whole.checkpoint.directory = run_.folder() / "whole";
    Trainer trainer(whole);
    testing::record_of(trainer, 2);
    trainer.save();
    export_model(whole.checkpoint.directory, base());
    EXPECT_THROW(export_model(whole.checkpoint.directory, ""), BadInput);
  }
  std::filesystem::path base() const { return run_.folder() / "base"; }
  Options options() const {
    Options options = run_.options(GetParam());
    options.model = {.pretrained = base(), .sequence = 13, .dropout = 0};
    options.lora = {.rank = 3, .alpha = 5, .dropout = 0.1};
    options.checkpoint.directory = run_.folder() / "adapters";
    return options;
  }
  static Record record(const Options& options, int steps = 3) { return testing::record_of(options, steps); }
  // Of thirteen tokens.
  static std::vector<float> logits(Trainer& trainer) {
    const std::vector<std::int32_t> tokens = {97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109};
    std::vector<float> all;
    trainer.logits(tokens, [&](std::int64_t, std::int64_t, std::span<const float> values) {
      all.insert(all.end(), values.begin(), values.end());
    });
    return all;
  }
  static double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
    EXPECT_EQ(a.size(), b.size());
    double apart = 0, size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      apart += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
      size += std::pow(static_cast<double>(a[i]), 2);
    }
    return std::sqrt(apart / size);
  }

  const SmallRun run_;
};

TEST_P(Adapters, BitsDoNotDependOnHowTheRunIsExecuted) {
  Options resident = options(), saved = options(), chunks = options();
  resident.device.execution = "resident";
  saved.recompute.policy = "none";
  saved.transfer.stash = "host";
  chunks.transfer.vocabulary_chunk = 72;
  const Record first = record(options());
  EXPECT_EQ(record(resident), first);
  EXPECT_EQ(record(saved), first);
  const Record other = record(chunks);
  for (std::size_t i = 0; i < first.losses.size(); ++i) EXPECT_NEAR(other.losses[i], first.losses[i], 1e-6);
  Options stabilized = options();
  stabilized.lora.rank_stabilized = true;
  EXPECT_NE(record(stabilized), first);  // negative control
}

TEST_P(Adapters, BeginAsTheModelAndResumeToTheBit) {
  Options without = options();
  without.lora = {};
  without.optimizer.train = {"*"};
  EXPECT_EQ(record(without, 1).losses, record(options(), 1).losses);
  const Record whole = record(options(), 6);
  {
    Trainer trainer(options());
    testing::record_of(trainer, 3);
    const std::filesystem::path folder = trainer.save();
    EXPECT_LT(std::filesystem::file_size(folder / "model.safetensors"),
              std::filesystem::file_size(base() / "model.safetensors") / 2);  // the base is not in it
    EXPECT_FALSE(std::filesystem::exists(folder / "config.json"));
  }
  Trainer trainer(options_to_resume(options(), options().checkpoint.directory));
  trainer.resume(options().checkpoint.directory);
  EXPECT_EQ(testing::record_of(trainer, 3).hash, whole.hash);
  Trainer by_itself(checkpoint_options(options().checkpoint.directory));  // the checkpoint knows its base
  by_itself.resume(options().checkpoint.directory);
  Options other = options();
  other.lora.rank = 4;
  Trainer changed(other);
  EXPECT_NE(testing::refusal([&] { changed.resume(options().checkpoint.directory); }).find("lora.rank = 3"),
            std::string::npos);
}

TEST_P(Adapters, OfLayersThatDoNotExistAreRefused) {
  Options nothing = options();
  nothing.lora.targets.push_back("no_proj");
  const std::string message = testing::refusal([&] { Trainer trainer(nothing); });
  EXPECT_NE(message.find("lora.targets: \"no_proj\" names no linear layer"), std::string::npos) << message;
}

TEST_P(Adapters, NeedTheBaseThatTheyWereTrainedBeside) {
  const Options own = options();
  {
    Trainer trainer(own);
    trainer.step();
    trainer.save();
  }
  Options another = run_.options(GetParam());
  another.model.dropout = 0;
  another.run.seed = 99;
  another.checkpoint.directory = run_.folder() / "another";
  Trainer(another).save();
  export_model(another.checkpoint.directory, run_.folder() / "another base");
  Options moved = checkpoint_options(own.checkpoint.directory);
  moved.model.base = run_.folder() / "another base";
  Trainer trainer(moved);
  EXPECT_NE(testing::refusal([&] { trainer.resume(own.checkpoint.directory); }).find("model.base"), std::string::npos);
  std::filesystem::rename(base(), run_.folder() / "gone");
  EXPECT_NE(testing::refusal([&] {
              export_model(own.checkpoint.directory, run_.folder() / "merged", {.merge = true});
            }).find("model.base"),
            std::string::npos);
}

TEST_P(Adapters, ComeBackFromAPeftDirectoryAndMerge) {
  const Options own = options();
  std::vector<float> with_adapters;
  {
    Trainer trainer(own);
    testing::record_of(trainer, 3);
    trainer.save();
    with_adapters = logits(trainer);
  }
  export_model(own.checkpoint.directory, run_.folder() / "peft");
  export_model(own.checkpoint.directory, run_.folder() / "merged", {.merge = true});
  Options again = options(), plain = options();
  again.lora = {.adapter = run_.folder() / "peft"};
  plain.lora = {};
  plain.model.pretrained = run_.folder() / "merged";
  {
    Trainer first(again);
    EXPECT_EQ(logits(first), with_adapters);
  }
  const std::map<std::string, LoraOptions> others = {{"lora.rank = 2", {.rank = 2}},
                                                     {"lora.alpha = 6.0", {.alpha = 6}},
                                                     {"lora.targets = [\"none\"]", {.targets = {"none"}}},
                                                     {"lora.rank_stabilized = true", {.rank_stabilized = true}}};
  for (const auto& [key, lora] : others) {
    Options other = again;
    other.lora = lora;
    other.lora.adapter = again.lora.adapter;
    const std::string message = testing::refusal([&] { Trainer refused(other); });
    EXPECT_TRUE(message.starts_with(key + ", but " + again.lora.adapter.string() + " has ")) << message;
  }
  Trainer second(plain);
  EXPECT_LE(relative_distance(logits(second), with_adapters), 1e-5);
  EXPECT_NE(testing::refusal([&] {
              export_model(run_.folder() / "whole", run_.folder() / "none", {.merge = true});
            }).find("no adapters"),
            std::string::npos);
}

// Where a matrix is trained itself, what is added to it is added to what it has become.
TEST_P(Adapters, MergeIntoMatricesThatAreTrainedThemselves) {
  Options own = options();
  own.optimizer.train = {"*"};
  std::vector<float> with_adapters;
  {
    Trainer trainer(own);
    testing::record_of(trainer, 3);
    trainer.save();
    with_adapters = logits(trainer);
  }
  export_model(own.checkpoint.directory, run_.folder() / "merged", {.merge = true});
  Options plain = options();
  plain.lora = {};
  plain.model.pretrained = run_.folder() / "merged";
  Trainer merged(plain), before(options());
  EXPECT_LE(relative_distance(logits(merged), with_adapters), 1e-5);
  EXPECT_GT(relative_distance(logits(before), with_adapters), 1e-3);  // negative control
}

INSTANTIATE_TEST_SUITE_P(Families, Adapters, ::testing::Values("gpt2", "bert", "llama", "llama_tied"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace l2l::frozen_law
