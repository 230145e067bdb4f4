// Every refusal of a config in one table: long because the list of options is.
#include "l2l/options.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include "l2l/errors.h"
#include "runtime/options/options_table.h"
#include "runtime/options/options_value.h"
#include "tests/runtime/test_data.h"
#include "tests/support/refusal.h"
#include "tests/support/temporary_folder.h"

namespace l2l {
namespace {

using ::l2l::runtime::test::bad_input;
using ::l2l::testing::TemporaryFolder;

std::string refusal(const std::string& assignment) {
  Options options;
  return bad_input([&] { set_option(options, assignment); });
}

Options loaded(const std::string& toml) {
  const TemporaryFolder folder;
  std::ofstream(folder / "run.toml") << toml;
  return load_options(folder / "run.toml");
}

std::string load_refusal(const std::string& toml) {
  return bad_input([&] { loaded(toml); });
}

std::string invalid(const std::vector<std::string>& assignments) {
  Options options;
  for (const std::string& assignment : assignments) set_option(options, assignment);
  return bad_input([&] { validate_options(options); });
}

TEST(Options, ReadsEveryKindOfValue) {
  const Options options = parse_options(R"(
[model]
layers = 3
dropout = 0
[data]
train = ["a.txt", "b/*.txt"]
format = "tokens"
[optimizer]
betas = [0.8, 0.95]
learning_rate = 3e-4
max_norm = 2
[device]
memory = "8GiB"
count = 1
index = 0
[transfer]
link_bandwidth = 500_000_000
[eps]
memory = "500MB"
[checkpoint]
directory = "runs/a"
[run]
seed = 9223372036854775807
)",
                                        "run.toml");
  EXPECT_EQ(options.model.layers, 3);
  EXPECT_EQ(options.model.dropout, 0.0);
  EXPECT_EQ(options.data.train, (std::vector<std::string>{"a.txt", "b/*.txt"}));
  EXPECT_EQ(options.data.format, "tokens");
  EXPECT_EQ(options.optimizer.beta1, 0.8);
  EXPECT_EQ(options.optimizer.beta2, 0.95);
  EXPECT_EQ(options.optimizer.learning_rate, 3e-4);
  EXPECT_EQ(options.optimizer.max_norm, 2.0);
  EXPECT_EQ(options.device.memory, 8ull << 30);
  EXPECT_EQ(options.transfer.link_bandwidth, 500'000'000u);
  EXPECT_EQ(options.eps.memory, 500'000'000u);
  EXPECT_EQ(options.checkpoint.directory, "runs/a");
  EXPECT_EQ(options.run.seed, 9223372036854775807u);
  EXPECT_EQ(options.model.hidden, Options{}.model.hidden) << "what is not named keeps its default";
}

TEST(Options, AnEmptyFileIsAllDefaults) { EXPECT_EQ(to_toml(loaded("")), to_toml(Options{})); }

TEST(Options, NamesFileAndLineOfAnUnknownKeyAndTheNearest) {
  const std::string message = load_refusal("[run]\nsteps = 1\n\n[optimizer]\nlearnig_rate = 1e-3\n");
  EXPECT_SAYS(message, "unknown key optimizer.learnig_rate in ");
  EXPECT_SAYS(message, "run.toml:5; did you mean learning_rate?");
}

TEST(Options, AnAssignmentWithoutAPartNamesThatPart) {
  EXPECT_EQ(refusal("run.steps"), "'run.steps': has no value: write run.steps=VALUE");
  EXPECT_EQ(refusal("run.steps="), "'run.steps=': has no value");
  EXPECT_EQ(refusal("nosect=1"), "'nosect=1': expected section.key=value, such as run.steps=10");
  EXPECT_SAYS(refusal("model"), "'model': expected section.key=value, such as run.steps=10; [model] has pretrained, ");
  EXPECT_EQ(load_refusal("nosect = 1\n").find("[]"), std::string::npos);
}

TEST(Options, SuggestsAcrossSections) {
  EXPECT_SAYS(refusal("model.steps=3"), "did you mean run.steps?");
  EXPECT_SAYS(refusal("optimiser.name=adamw"), "unknown section [optimiser]");
  EXPECT_SAYS(refusal("optimiser.name=adamw"), "did you mean [optimizer]?");
  EXPECT_SAYS(refusal("optimizer.beta1=0.9"), "did you mean betas?");
  EXPECT_SAYS(refusal("optimizer.lr=0.1"), "did you mean learning_rate?");
  EXPECT_SAYS(refusal("layers=3"), "expected section.key=value, such as run.steps=10; did you mean model.layers?");
  EXPECT_SAYS(refusal("nosect.key=1"), "unknown section [nosect] in 'nosect.key=1'; the sections are model, data, ");
  EXPECT_SAYS(refusal("eps.zzzzzzzzzzzz=1"), "[eps] has threads, memory, gradient_buffers, stash_memory");
  EXPECT_SAYS(load_refusal("steps = 3\n"), "stands outside a section; did you mean run.steps?");
  EXPECT_SAYS(load_refusal("model = 3\n"), "expected a section");
  EXPECT_SAYS(load_refusal("[[model]]\nlayers = 3\n"), "expected a section");
  EXPECT_SAYS(load_refusal("[modell]\nlayers = 3\n"), "run.toml:1; did you mean [model]?");
}

TEST(Options, SaysWhatWasExpectedAndFound) {
  EXPECT_SAYS(refusal("model.layers=many"), "expected an integer from 1 to 10000, found the string \"many\"");
  EXPECT_SAYS(refusal("model.layers=2.0"), "found the number 2.0");
  EXPECT_SAYS(refusal("model.layers=true"), "found true");
  EXPECT_SAYS(refusal("model.tie_embeddings=1"), "expected true or false, found the integer 1");
  EXPECT_SAYS(refusal("data.train=[1]"), "expected an array of strings");
  EXPECT_SAYS(refusal("optimizer.betas=[0.9]"),
              "expected an array of two numbers in [0, 0.999999], found an array of 1");
  EXPECT_SAYS(refusal("optimizer.betas=[0.9, 1]"), "expected an array of two numbers in [0, 0.999999]");
  EXPECT_SAYS(refusal("optimizer.betas=[0.9, 0.99999999]"), "in [0, 0.999999]");  // is 1 in fp32
  EXPECT_SAYS(refusal("device.memory=8Gi"), "expected a size such as \"8GiB\"");
  EXPECT_SAYS(refusal("device.memory=-1"), "expected a size such as \"8GiB\"");
  EXPECT_SAYS(refusal("run.seed=-1"), "expected an integer from 0");
  EXPECT_SAYS(refusal("run.steps=1979-05-27"), "found a date or time");
  EXPECT_SAYS(refusal("model.layers.x=1"), "unknown key model.layers.x");
  EXPECT_SAYS(load_refusal("[model]\nlayers.x = 1\n"), "found a table");
  EXPECT_SAYS(load_refusal("[data]\n\ntrain = [\"a\\u0000b\"]\n"),
              "run.toml:3: expected an array of strings in UTF-8 without");
  EXPECT_SAYS(load_refusal("[model]\nlayers = -1\n"), "model.layers in ");
  EXPECT_SAYS(load_refusal("[model]\nlayers = -1\n"), "run.toml:2: expected an integer from 1");
}

TEST(Options, ALossScaleIsDynamicOrANumber) {
  Options options;
  for (const char* dynamic : {"dynamic", "0", "0.0", "\"dynamic\""}) {
    options.precision.loss_scale = 5;
    set_option(options, "precision.loss_scale=" + std::string(dynamic));
    EXPECT_EQ(options.precision.loss_scale, 0) << dynamic;
  }
  EXPECT_NE(to_toml(options).find("loss_scale = \"dynamic\""), std::string::npos);
  set_option(options, "precision.loss_scale=1024");
  EXPECT_EQ(options.precision.loss_scale, 1024);
  for (const char* wrong : {"static", "-1", "0.5", "1e9", "true", "nan"}) {
    EXPECT_SAYS(refusal("precision.loss_scale=" + std::string(wrong)),
                "expected \"dynamic\", 0 (the same) or a number");
  }
}

TEST(Options, ResidentLayersAreChosenOrANumber) {
  Options options;
  EXPECT_NE(to_toml(options).find("resident_layers = \"auto\""), std::string::npos);
  set_option(options, "transfer.resident_layers=3");
  EXPECT_EQ(options.transfer.resident_layers, 3);
  EXPECT_NE(to_toml(options).find("resident_layers = 3"), std::string::npos);
  set_option(options, "transfer.resident_layers=auto");
  EXPECT_EQ(options.transfer.resident_layers, TransferOptions::kChosen);
  for (const char* wrong : {"some", "-1", "-2", "0.5", "1000001", "true"}) {
    EXPECT_SAYS(refusal("transfer.resident_layers=" + std::string(wrong)), "expected \"auto\" or an integer from 0");
  }
  options.transfer.resident_layers = options.model.layers + 1;
  EXPECT_THROW(validate_options(options), BadInput);
  options.transfer.resident_layers = 1;
  EXPECT_NO_THROW(validate_options(options));
  options.device.execution = "resident";
  EXPECT_THROW(validate_options(options), BadInput);
}

TEST(Options, RefusesWhatThisVersionHasNot) {
  EXPECT_SAYS(refusal("model.architecture=t5"), "\"t5\" is not one of \"gpt2\", \"bert\", \"roberta\", \"llama\"");
  EXPECT_SAYS(refusal("optimizer.moments=fp16"), "is not one of \"fp32\", \"bf16_first\", \"bf16\", \"int8\"");
  EXPECT_SAYS(refusal("optimizer.name=lion"), "is not one of \"adamw\", \"lamb\", \"sgd\"");
  EXPECT_SAYS(refusal("optimizer.clip=value"), "is not one of \"none\", \"per_layer\", \"global\"");
  EXPECT_SAYS(refusal("precision.compute=fp8"), "is not one of \"auto\", \"fp32\", \"bf16\", \"fp16\"");
  EXPECT_SAYS(refusal("recompute.policy=half"), "is not one of \"auto\", \"full\"");
}

TEST(Options, KeepsEveryRange) {
  // Just inside and just outside of each bound.
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"model.layers=1", "model.layers=0"},
      {"model.layers=10000", "model.layers=10001"},
      {"model.dropout=0.999", "model.dropout=1"},
      {"model.rope_theta=1.001", "model.rope_theta=1"},
      {"device.count=1", "device.count=0"},
      {"device.count=64", "device.count=65"},
      {"device.tensor=1", "device.tensor=0"},
      {"distributed.timeout=0", "distributed.timeout=-1"},
      {"distributed.nodes=0", "distributed.nodes=-1"},
      {"distributed.nodes=4096", "distributed.nodes=4097"},
      {"distributed.bandwidth=0", "distributed.bandwidth=-1"},
      {"data.masked=1", "data.masked=0"},
      {"data.mask_token=-1", "data.mask_token=-2"},
      {"model.dropout=0", "model.dropout=-0.1"},
      {"device.index=0", "device.index=-1"},
      {"device.pinned_memory=64GiB", "device.pinned_memory=-1"},
      {"transfer.prefetch=1", "transfer.prefetch=0"},
      {"transfer.prefetch=64", "transfer.prefetch=65"},
      {"batch.minibatch=0", "batch.minibatch=-1"},
      {"batch.minibatch=17592184995840", "batch.minibatch=17592184995841"},
      {"batch.micro_batch=0", "batch.micro_batch=-1"},
      {"batch.micro_batch=1048576", "batch.micro_batch=1048577"},
      {"batch.micro_batches=0", "batch.micro_batches=-1"},
      {"batch.micro_batches=16777215", "batch.micro_batches=16777216"},
      {"optimizer.learning_rate=1e-30", "optimizer.learning_rate=0"},
      {"optimizer.learning_rate=1", "optimizer.learning_rate=inf"},
      {"optimizer.learning_rate=1", "optimizer.learning_rate=nan"},
      {"optimizer.epsilon=1e-12", "optimizer.epsilon=0.0"},
      {"optimizer.betas=[0, 0]", "optimizer.betas=[-0.1, 0]"},
      {"optimizer.weight_decay=0", "optimizer.weight_decay=-1"},
      {"run.steps=0", "run.steps=-1"},
      {"checkpoint.keep=1", "checkpoint.keep=0"},
      {"checkpoint.every=0", "checkpoint.every=-1"},
      {"schedule.minimum=0", "schedule.minimum=-1"},
  };
  for (const auto& [good, bad] : pairs) {
    Options options;
    EXPECT_NO_THROW(set_option(options, good)) << good;
    EXPECT_SAYS(refusal(bad), "expected ") << bad;
  }
  EXPECT_SAYS(refusal("device.feed=halved"), "is not one of \"auto\", \"whole\", \"gathered\"");
  EXPECT_SAYS(refusal("device.kind=gpu"), "is not one of \"auto\", \"host\", \"cuda\"");
  EXPECT_SAYS(refusal("device.graphs=1"), "expected true or false");
}

TEST(Options, AssignmentsTakeTomlOrABareWord) {
  Options options;
  set_option(options, " run.steps = 7  # a week");
  EXPECT_EQ(options.run.steps, 7);
  set_option(options, "checkpoint.directory=/tmp/a#1 b");
  EXPECT_EQ(options.checkpoint.directory, "/tmp/a#1 b");
  set_option(options, "optimizer.update=after_backward");
  EXPECT_EQ(options.optimizer.update, "after_backward");
  set_option(options, "optimizer.update=\"eager\"");
  EXPECT_EQ(options.optimizer.update, "eager");
  set_option(options, "data.train=[\"x=y.txt\"]");
  EXPECT_EQ(options.data.train, std::vector<std::string>{"x=y.txt"});
  set_option(options, "data.train=corpus/*.txt");
  EXPECT_EQ(options.data.train, std::vector<std::string>{"corpus/*.txt"});
  set_option(options, "device.memory=1.5GiB");
  EXPECT_EQ(options.device.memory, 3ull << 29);
}

TEST(Options, BrokenAssignmentsChangeNothing) {
  Options options;
  const std::string before = to_toml(options);
  for (const char* assignment :
       {"", "=", "run.steps", "run.steps=", "steps=3", ".=1", "run.=1", ".steps=1", "data.train=[\"a\"",
        "checkpoint.directory=\"a", "run.steps=1\nfoo=2", "optimizer.betas=[0.5, 7]"}) {
    EXPECT_THROW(set_option(options, assignment), BadInput) << assignment;
    EXPECT_EQ(to_toml(options), before) << assignment;
  }
}

TEST(Options, RefusesFilesThatAreNoConfig) {
  const TemporaryFolder folder;
  const auto refuse = [&](const std::string& name) { return bad_input([&] { load_options(folder / name); }); };
  EXPECT_SAYS(refuse("missing.toml"), "missing.toml: cannot be opened: No such file");
  EXPECT_SAYS(bad_input([&] { load_options(folder.path()); }), "is a directory");
  std::ofstream(folder / "syntax.toml") << "[run]\nsteps = 1\nseed = = 2\n";
  EXPECT_SAYS(refuse("syntax.toml"), "syntax.toml:3: not TOML");
  std::ofstream(folder / "twice.toml") << "[run]\nsteps = 1\nsteps = 2\n";
  EXPECT_SAYS(refuse("twice.toml"), "twice.toml:3: not TOML");
  std::ofstream(folder / "binary.toml") << std::string("\xff\xfe\0\x01", 4);
  EXPECT_SAYS(refuse("binary.toml"), "not TOML");
  std::ofstream(folder / "large.toml") << std::string((1 << 20) + 1, '#');
  EXPECT_SAYS(refuse("large.toml"), "longer than 1 MiB");
  std::string dots;
  for (int i = 0; i < 400'000; ++i) dots += "a.";
  std::ofstream(folder / "deep.toml") << dots << "a = 1\n";
  EXPECT_SAYS(refuse("deep.toml"), "dots in one line");
  std::ofstream(folder / "nested.toml") << "a = " << std::string(500'000, '[') << "\n";
  EXPECT_SAYS(refuse("nested.toml"), "not TOML");
}

TEST(Options, RefusesAnUnreadableFile) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TemporaryFolder folder;
  std::ofstream(folder / "secret.toml") << "";
  chmod((folder / "secret.toml").c_str(), 0);
  EXPECT_SAYS(bad_input([&] { load_options(folder / "secret.toml"); }), "Permission denied");
}

TEST(Options, EveryPrefixAndEveryFlippedByteOfAConfigIsReadOrRefused) {
  const std::string text = to_toml(Options{});
  const auto survive = [](const std::string& damaged) {
    try {
      validate_options(parse_options(damaged, "run.toml"));
    } catch (const BadInput&) {
    }
  };
  for (std::size_t length = 0; length < text.size(); ++length) survive(text.substr(0, length));
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    survive(damaged);
  }
}

// Moves every field off its default, so that a key that to_toml() forgets or mixes up is seen.
void change(const runtime::Field& field, int number) {
  using namespace runtime;
  if (const auto* f = std::get_if<IntegerField>(&field)) {
    const std::int64_t value = f->least + 1 + number % (f->most - f->least);
    *f->value = value == *f->value ? f->least : value;
  }
  if (const auto* f = std::get_if<UnsignedField>(&field)) {
    *f->value = f->is_size ? 1'000'000'007u * static_cast<unsigned>(number + 1)
                           : std::numeric_limits<std::int64_t>::max() - number;
  }
  if (const auto* f = std::get_if<RealField>(&field)) {  // needs all 17 digits
    *f->value = f->may_be_dynamic ? 1024.5 : std::max(0.0, f->range.least) + 1.0 / (3.5 + number);
  }
  if (const auto* f = std::get_if<PairField>(&field)) *f->first = 1.0 / 7, *f->second = std::nextafter(0.99, 0.0);
  if (const auto* f = std::get_if<BooleanField>(&field)) *f->value = !*f->value;
  if (const auto* f = std::get_if<TextField>(&field)) {
    *f->value = f->choices.empty() ? "some text" : std::string(f->choices.back());
  }
  if (const auto* f = std::get_if<SourcesField>(&field)) {
    *f->value = {{.train = {"a.txt"}, .weight = 1.0 / 3},
                 {.train = {"b"},
                  .format = "jsonl",
                  .separator = "\n\"",
                  .columns = {"x"},
                  .learn = "all",
                  .chat_template = "gemma"}};
  }
  if (const auto* f = std::get_if<GroupsField>(&field)) {
    *f->value = {{.parameters = {"*.bias", "h.0.*"}, .weight_decay = 1.0 / 3}, {{"*"}, 0.125, 0}};
  }
  if (const auto* f = std::get_if<TextsField>(&field))
    *f->value = {"a \"b\" \\ [c]", "d" + std::to_string(number), "é"};
  if (const auto* f = std::get_if<PathField>(&field)) *f->value = "runs/\"x\" \\ é " + std::to_string(number);
}

TEST(Options, NamesTheLineWithinASource) {
  const auto said = [](const std::string& line) {
    const std::string text = "[data]\n[[data.source]]\ntrain = [\"a\"]\n\n[[data.source]]\ntrain = [\"b\"]\n";
    return testing::refusal([&] { parse_options(text + line, "run.toml"); });
  };
  EXPECT_SAYS(said("weight = -1.0"), "data.source.weight in run.toml:7: expected");
  EXPECT_SAYS(said("wieght = 1.0"), "unknown key data.source.wieght in run.toml:7; [[data.source]] has");
}

TEST(Options, TomlRoundTripsEveryField) {
  Options options;
  int number = 0;
  for (const runtime::Key& key : runtime::option_keys(options)) change(key.field, number++);
  Options read = parse_options(to_toml(options), "written");
  const auto written_keys = runtime::option_keys(options), read_keys = runtime::option_keys(read);
  Options defaults;
  const auto default_keys = runtime::option_keys(defaults);
  for (std::size_t i = 0; i < written_keys.size(); ++i) {
    const std::string value = runtime::value_to_toml(written_keys[i].field);
    EXPECT_EQ(runtime::value_to_toml(read_keys[i].field), value)
        << written_keys[i].section << "." << written_keys[i].name;
    const auto* text = std::get_if<runtime::TextField>(&written_keys[i].field);
    if (text != nullptr && text->choices.size() == 1) continue;  // has only its default
    EXPECT_NE(runtime::value_to_toml(default_keys[i].field), value) << written_keys[i].name << " was not changed";
  }
  EXPECT_EQ(read.optimizer.learning_rate, options.optimizer.learning_rate);
  EXPECT_EQ(read.data.train, options.data.train);
  EXPECT_EQ(read.checkpoint.directory, options.checkpoint.directory);
  EXPECT_EQ(read.run.seed, options.run.seed);
}

TEST(Options, TheTableHoldsTheContractsKeysOnce) {
  const std::multiset<std::string> expected = {"model.rope_theta",
                                               "model.rope_local_theta",
                                               "model.rope_scaling",
                                               "model.rope_factor",
                                               "model.rope_original_positions",
                                               "model.rope_low_frequency",
                                               "model.rope_high_frequency",
                                               "model.rope_beta_fast",
                                               "model.rope_beta_slow",
                                               "model.rope_attention_factor",
                                               "model.rope_truncate",
                                               "distributed.kind",
                                               "distributed.wire",
                                               "distributed.timeout",
                                               "distributed.nodes",
                                               "distributed.bandwidth",
                                               "model.pretrained",
                                               "model.new_head",
                                               "model.base",
                                               "run.tensorboard",
                                               "run.patience",
                                               "checkpoint.best",
                                               "optimizer.train",
                                               "optimizer.group",
                                               "optimizer.layer_decay",
                                               "lora.rank",
                                               "lora.alpha",
                                               "lora.dropout",
                                               "lora.targets",
                                               "lora.rank_stabilized",
                                               "lora.adapter",
                                               "model.architecture",
                                               "model.layers",
                                               "model.hidden",
                                               "model.heads",
                                               "model.kv_heads",
                                               "model.head_dim",
                                               "model.intermediate",
                                               "model.vocabulary",
                                               "model.sequence",
                                               "model.positions",
                                               "model.token_types",
                                               "model.padding_token",
                                               "model.dropout",
                                               "model.norm_epsilon",
                                               "model.activation",
                                               "model.attention_bias",
                                               "model.mlp_bias",
                                               "model.tie_embeddings",
                                               "model.layer_types",
                                               "model.sliding_window",
                                               "model.attention_softcap",
                                               "model.logit_softcap",
                                               "model.query_scale",
                                               "model.blocks",
                                               "model.inputs",
                                               "model.targets",
                                               "model.custom_ops",
                                               "model.attention",
                                               "model.reversible",
                                               "model.variant",
                                               "model.image_size",
                                               "model.image_channels",
                                               "data.augment",
                                               "data.train",
                                               "data.validation",
                                               "data.allow_change",
                                               "data.masked",
                                               "data.buckets",
                                               "data.label",
                                               "model.head",
                                               "model.label_names",
                                               "model.labels",
                                               "data.mask_token",
                                               "data.format",
                                               "data.separator",
                                               "data.columns",
                                               "data.source",

                                               "data.learn",
                                               "data.task",
                                               "data.template",
                                               "data.threads",
                                               "data.samples",
                                               "data.order",
                                               "data.tokenizer",
                                               "batch.minibatch",
                                               "batch.micro_batch",
                                               "batch.micro_batches",
                                               "batch.parts",
                                               "optimizer.name",
                                               "optimizer.learning_rate",
                                               "optimizer.betas",
                                               "optimizer.epsilon",
                                               "optimizer.momentum",
                                               "optimizer.weight_decay",
                                               "optimizer.clip",
                                               "optimizer.max_norm",
                                               "optimizer.moments",
                                               "optimizer.update",
                                               "schedule.kind",
                                               "schedule.warmup_steps",
                                               "schedule.minimum",
                                               "precision.compute",
                                               "precision.gradients",
                                               "precision.loss_scale",
                                               "precision.loss_scale_growth",
                                               "precision.tf32",
                                               "device.kind",
                                               "device.memory",
                                               "device.execution",
                                               "device.count",
                                               "device.tensor",
                                               "device.feed",
                                               "device.sums",
                                               "device.index",
                                               "device.graphs",
                                               "device.pinned_memory",
                                               "device.threads",
                                               "transfer.stash",
                                               "transfer.prefetch",
                                               "transfer.resident_layers",
                                               "transfer.vocabulary_chunk",
                                               "transfer.link_bandwidth",
                                               "recompute.policy",
                                               "recompute.budget",
                                               "eps.threads",
                                               "eps.memory",
                                               "eps.gradient_buffers",
                                               "eps.stash_memory",
                                               "eps.verify",
                                               "checkpoint.directory",
                                               "checkpoint.every",
                                               "checkpoint.minutes",
                                               "checkpoint.keep",
                                               "run.steps",
                                               "run.seconds",
                                               "run.seed",
                                               "run.validate_every",
                                               "run.validate_minutes",
                                               "run.allow_nonfinite"};
  Options options;
  std::multiset<std::string> names;
  for (const runtime::Key& key : runtime::option_keys(options)) {
    names.insert(std::string(key.section) + "." + std::string(key.name));
  }
  EXPECT_EQ(names, expected);
}

TEST(ValidateOptions, AcceptsTheDefaults) { EXPECT_NO_THROW(validate_options(Options{})); }

TEST(ValidateOptions, ChecksRangesOfFieldsThatWereSetInCode) {
  Options options;
  options.model.heads = 0;
  EXPECT_SAYS(bad_input([&] { validate_options(options); }), "model.heads: expected an integer from 1");
  options = {};
  options.optimizer.learning_rate = std::nan("");
  EXPECT_SAYS(bad_input([&] { validate_options(options); }), "optimizer.learning_rate: expected a number");
  options = {};
  options.device.kind = "tpu";
  EXPECT_SAYS(bad_input([&] { validate_options(options); }), "device.kind: \"tpu\" is not one of \"auto\"");
  options = {};
  options.transfer.link_bandwidth = 1;
  EXPECT_SAYS(bad_input([&] { validate_options(options); }), "transfer.link_bandwidth = 1 is in bytes per second");
}

// Or the config that a run keeps could not be read again.
TEST(ValidateOptions, TextsAreUtf8) {
  Options options;
  options.checkpoint.directory = "caf\xc3\xa9";
  EXPECT_NO_THROW(validate_options(options));
  options.checkpoint.directory = "caf\xe9";
  EXPECT_SAYS(bad_input([&] { validate_options(options); }), "expected a path as a string in UTF-8");
}

TEST(ValidateOptions, ErrorsSayWhatTheyAreAbout) {
  const auto place = [](const auto& action) { return l2l::testing::place_of_refusal(action); };
  Options options;
  options.model.heads = 5;
  EXPECT_EQ(place([&] { validate_options(options); }).key, "model.hidden") << "128 is not divisible by 5";
  EXPECT_EQ(place([&] { set_option(options, "optimizer.learning_rate=fast"); }).key, "optimizer.learning_rate");
  EXPECT_EQ(place([&] { set_option(options, "optimizer.learnin_rate=1"); }).key, "optimizer.learnin_rate");
  const testing::TemporaryFolder folder;
  const std::filesystem::path file = folder / "run.toml";
  std::ofstream(file) << "[model]\nlayers = \"many\"\n";
  const ErrorPlace in_file = place([&] { load_options(file); });
  EXPECT_EQ(in_file.file, file.string());
  EXPECT_EQ(in_file.key, "model.layers");
}

TEST(ValidateOptions, ChecksCombinations) {
  EXPECT_SAYS(invalid({"precision.tf32=true", "precision.compute=bf16"}), "precision.tf32 is for products of fp32");

  EXPECT_SAYS(invalid({"model.hidden=100", "model.heads=3"}), "model.hidden = 100 is not divisible by model.heads = 3");
  EXPECT_SAYS(invalid({"model.vocabulary=255", "data.train=[\"text\"]"}), "model.vocabulary = 255");
  EXPECT_EQ(invalid({"model.vocabulary=255", "data.format=tokens"}), "(no BadInput)");
  EXPECT_EQ(invalid({"model.tie_embeddings=false"}), "(no BadInput)");
  EXPECT_SAYS(invalid({"device.count=2", "batch.micro_batches=3"}),
              "batch.micro_batches = 3 is not divisible by device.count = 2");
  EXPECT_EQ(invalid({"device.count=2", "batch.micro_batches=4"}), "(no BadInput)");
  EXPECT_EQ(invalid({"device.count=6", "device.tensor=2", "batch.micro_batches=3"}), "(no BadInput)");
  EXPECT_SAYS(invalid({"device.count=3", "device.tensor=2", "batch.micro_batches=3"}),
              "device.tensor = 2 does not divide device.count = 3");
  EXPECT_SAYS(invalid({"batch.minibatch=30", "batch.micro_batch=4"}),
              "batch.minibatch = 30 is not divisible by batch.micro_batch = 4; set batch.micro_batch = 3 or 5");
  EXPECT_EQ(invalid({"batch.minibatch=30", "batch.micro_batch=5", "device.count=3"}), "(no BadInput)");
  EXPECT_SAYS(invalid({"schedule.minimum=1"}), "exceeds optimizer.learning_rate");
  EXPECT_SAYS(invalid({"precision.gradients=fp16"}),
              "precision.gradients = \"fp16\" with precision.compute = \"auto\"");
  EXPECT_SAYS(invalid({"precision.gradients=fp16", "precision.compute=bf16"}), "only fp16 compute scales its loss");
  EXPECT_SAYS(invalid({"precision.gradients=bf16", "batch.parts=1"}), "batch.parts is for gradients in fp32");
  EXPECT_SAYS(invalid({"device.execution=resident", "batch.parts=1"}), "batch.parts is for device.execution");
  EXPECT_SAYS(invalid({"precision.loss_scale=1024"}), "precision.compute = \"auto\" has none");
  EXPECT_EQ(invalid({"precision.tf32=true"}), "(no BadInput)");
  EXPECT_SAYS(invalid({"precision.tf32=true", "precision.compute=bf16"}), "precision.tf32 is for products of fp32");
  for (const char* gradients : {"auto", "fp32", "bf16", "fp16"}) {
    EXPECT_EQ(invalid({"precision.compute=fp16", "precision.gradients=" + std::string(gradients)}), "(no BadInput)");
  }
  EXPECT_SAYS(invalid({"checkpoint.every=5"}), "checkpoint.directory is empty");
  EXPECT_EQ(invalid({"checkpoint.every=5", "checkpoint.directory=x"}), "(no BadInput)");
  EXPECT_SAYS(invalid({"run.validate_every=5"}), "data.validation names no file");
  EXPECT_SAYS(invalid({"run.validate_minutes=5"}), "data.validation names no file");
}

TEST(ValidateOptions, TheBestCheckpointNeedsAValidationAPlaceAndAMetricOfTheHead) {
  const std::string validation = "data.validation=[\"x\"]", directory = "checkpoint.directory=y",
                    loss = "checkpoint.best=loss";
  for (const char* when : {"run.validate_every=9", "run.validate_minutes=9"}) {
    EXPECT_EQ(invalid({validation, directory, loss, when, "run.patience=2"}), "(no BadInput)");
  }
  EXPECT_EQ(invalid({validation, directory, loss}), "(no BadInput)");
  EXPECT_SAYS(invalid({validation, directory, loss, "run.patience=2"}),
              "run.patience = 2 counts validations during the run, which has none: set run.validate_every or "
              "run.validate_minutes");
  EXPECT_SAYS(invalid({validation, directory, "run.patience=2"}), "run.patience = 2 needs to know what is better");
  EXPECT_SAYS(invalid({directory, loss}), "data.validation names no file");
  EXPECT_SAYS(invalid({validation, loss}), "checkpoint.directory is empty");
  const auto with_head = [&](const char* head, const char* metric) {
    return invalid({validation, directory, std::string("checkpoint.best=") + metric, std::string("model.head=") + head,
                    "data.label=l", "data.format=jsonl", "model.architecture=bert", "model.vocabulary=300"});
  };
  for (const char* metric : {"accuracy", "f1", "matthews"})
    EXPECT_EQ(with_head("classification", metric), "(no BadInput)");
  for (const char* metric : {"pearson", "spearman"}) EXPECT_EQ(with_head("regression", metric), "(no BadInput)");
  EXPECT_SAYS(with_head("classification", "pearson"), "has loss, accuracy, f1, matthews");
  EXPECT_SAYS(with_head("regression", "accuracy"), "has loss, pearson, spearman");
  const auto with_tags = [&](const std::string& names) {
    return invalid({validation, directory, "checkpoint.best=f1", "model.head=tokens", "model.label_names=" + names,
                    "data.label=l", "data.format=jsonl", "model.architecture=bert", "model.vocabulary=300"});
  };
  EXPECT_EQ(with_tags("[\"O\", \"B-PER\"]"), "(no BadInput)");
  for (const char* names : {"[]", "[\"DET\", \"PRT\"]"}) {
    EXPECT_SAYS(with_tags(names), "model.head = \"tokens\" has loss, accuracy; \"f1\" is of entities");
  }
  EXPECT_SAYS(invalid({validation, directory, "checkpoint.best=accuracy"}), "model.head = \"language\" has loss");
}

TEST(ValidateOptions, RefusesSizesWhoseProductsOverflowOrExceedTheRandomNumbers) {
  EXPECT_SAYS(invalid({"model.vocabulary=16777216", "model.hidden=1048576"}), "model.vocabulary x model.hidden");
  EXPECT_SAYS(invalid({"model.sequence=1048576"}), "model.sequence x model.sequence");
  EXPECT_SAYS(invalid({"model.sequence=1048576"}), "or set model.dropout = 0");
  const std::string core = invalid({"model.sequence=1048576", "model.dropout=0", "model.attention=core"});
  EXPECT_SAYS(core, "model.sequence x model.sequence");
  EXPECT_SAYS(core, "or set model.attention = \"fused\"");
  EXPECT_EQ(invalid({"model.sequence=1048576", "model.dropout=0", "batch.micro_batch=1"}), "(no BadInput)");
  EXPECT_SAYS(invalid({"batch.micro_batch=1048576", "model.sequence=1048576"}), "elements; at most");
  EXPECT_SAYS(invalid({"model.layers=10000", "batch.micro_batches=16777215", "batch.micro_batch=64"}),
              "model.layers x batch.micro_batches");
  EXPECT_SAYS(invalid({"model.layers=1", "model.hidden=4", "model.sequence=8", "batch.micro_batches=16777215",
                       "batch.micro_batch=131072", "run.steps=1000000000000"}),
              "tokens of the run");
  // Of what follows, too.
  EXPECT_SAYS(invalid({"batch.minibatch=1048576", "batch.micro_batches=1", "model.sequence=1048576"}),
              "elements; at most");
}

}  // namespace
}  // namespace l2l
