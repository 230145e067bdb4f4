// Continuing texts with a cache of keys and values is the same function as running each text whole, for every family;
// what it needs is in the contract.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>

#include "core/fault_point.h"
#include "core/philox.h"
#include "core/weight_source.h"
#include "runtime/generator.h"
#include "runtime/plan/generation_plan.h"
#include "tests/laws/counting_device.h"
#include "tests/laws/small_run.h"

namespace l2l::generation_law {
namespace {

using Logits = std::vector<float>;
using Tokens = std::vector<std::int32_t>;

std::map<std::string, ModelOptions> families() {
  const ModelOptions llama{.architecture = "llama",
                           .layers = 3,
                           .hidden = 24,
                           .heads = 6,
                           .kv_heads = 2,
                           .intermediate = 40,
                           .vocabulary = 61,
                           .sequence = 20,
                           .dropout = 0,
                           .tie_embeddings = false};
  std::map<std::string, ModelOptions> models = {{"llama", llama}};
  models["gpt2"] = {.layers = 3, .hidden = 24, .heads = 3, .vocabulary = 61, .sequence = 20, .dropout = 0.1};
  const auto vary = [&](const char* name, const char* architecture, const auto& change) {
    ModelOptions model = llama;
    model.architecture = architecture;
    change(model);
    models[name] = model;
  };
  vary("llama_core", "llama", [](ModelOptions& m) { m.attention = "core"; });
  vary("llama_dynamic", "llama",
       [](ModelOptions& m) { m.rope_scaling = "dynamic", m.rope_factor = 4, m.positions = 8; });
  vary("mistral", "mistral", [](ModelOptions& m) { m.sliding_window = 5; });
  vary("qwen2", "qwen2", [](ModelOptions& m) {
    m.sliding_window = 6, m.layer_types = {"sliding_attention", "full_attention"};
  });
  vary("qwen3", "qwen3", [](ModelOptions& m) { m.head_dim = 10; });
  vary("gemma2", "gemma2", [](ModelOptions& m) {
    m.sliding_window = 5, m.attention_softcap = 2, m.logit_softcap = 3, m.query_scale = 7, m.tie_embeddings = true;
  });
  vary("gemma3", "gemma3", [](ModelOptions& m) {
    m.sliding_window = 4, m.head_dim = 8, m.layer_types = {"sliding_attention", "full_attention"};
  });
  return models;
}

Options options_of(const ModelOptions& model) {
  Options options;
  options.precision.compute = "fp32";
  options.model = model;
  options.data.format = "tokens";
  options.device.kind = "host";
  options.batch = {.micro_batch = 1, .micro_batches = 1};
  options.recompute.policy = "full";
  return options;
}

// Weights that are large enough for every feature to show: matrices within 0.4, norms' gains near 1 or 0.
class LargeWeights final : public WeightSource {
 public:
  bool read(const ParameterSpec& parameter, std::int64_t first, std::span<float> destination) const override {
    const bool matrix = parameter.shape.rank() > 1, ones = parameter.initial == Initial::ones;
    const auto key = static_cast<std::uint32_t>(std::hash<std::string>()(parameter.name));
    for (std::size_t i = 0; i < destination.size(); ++i) {
      const PhiloxBlock words =
          philox({key, 0, 0, 0, 1}, static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(i));
      destination[i] = (to_uniform(words[0]) - 0.5f) * (matrix ? 0.8f : 0.3f) + (ones ? 1.0f : 0.0f);
    }
    return true;
  }
};

double distance(const Logits& a, const Logits& b) {
  double apart = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    all += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(apart / all);
}

Tokens some_tokens(std::size_t count, std::uint32_t state) {
  Tokens tokens;
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>(((state = state * 1664525u + 1013904223u) >> 16) % 61));
  }
  return tokens;
}

// The largest distance between the logits of rows that were run one by one behind `first` of each text, and those of
// the whole texts.
double worst_distance(const Options& options, const std::vector<std::size_t>& firsts) {
  const runtime::RunPlan plan = runtime::plan_run(options);
  const LargeWeights weights;
  runtime::Engine engine(plan, nullptr, &weights);
  const std::size_t count = 18, texts = firsts.size();
  std::vector<Tokens> tokens;
  std::vector<std::vector<Logits>> whole(texts, std::vector<Logits>(count, Logits(61)));
  for (std::size_t text = 0; text < texts; ++text) {
    tokens.push_back(some_tokens(count, static_cast<std::uint32_t>(17 + text)));
    runtime::predict_sequence(engine, plan, 0, tokens[text], /*hidden=*/false,
                              [&](std::int64_t row, std::int64_t first, std::span<const float> values) {
                                std::copy(values.begin(), values.end(),
                                          whole[text][static_cast<std::size_t>(row)].begin() + first);
                              });
  }
  const std::size_t longest = *std::max_element(firsts.begin(), firsts.end());
  const runtime::GenerationPlan cache(plan, {static_cast<std::int64_t>(texts), static_cast<std::int64_t>(longest),
                                             static_cast<std::int64_t>(count - longest)});
  engine.start_generation(cache);
  std::vector<Logits> logits(texts, Logits(61));
  const auto take = [&](std::size_t text, std::int64_t first, std::span<const float> values) {
    std::copy(values.begin(), values.end(), logits[text].begin() + first);
  };
  double worst = 0;
  std::vector<runtime::TextTokens> begins;
  for (std::size_t text = 0; text < texts; ++text) {
    begins.push_back({text, std::span(tokens[text]).first(firsts[text])});
  }
  engine.run_texts(0, begins, take);
  for (std::size_t text = 0; text < texts; ++text) {
    worst = std::max(worst, distance(logits[text], whole[text][firsts[text] - 1]));
  }
  for (std::size_t step = 0; step + longest < count; ++step) {
    std::vector<runtime::NextToken> rows;
    for (std::size_t text = 0; text < texts; ++text) {
      if (text == 1 && step % 3 == 2) continue;  // a text that pauses
      const std::size_t place = firsts[text] + step - (text == 1 ? step / 3 : 0);
      rows.push_back({text, tokens[text][place], static_cast<std::int64_t>(place)});
    }
    engine.run_rows(0, rows, take);
    for (const runtime::NextToken& row : rows) {
      worst = std::max(worst, distance(logits[row.text], whole[row.text][static_cast<std::size_t>(row.place)]));
    }
  }
  return worst;
}

TEST(Generation, TheCacheIsTheSameFunction) {
  for (const auto& [name, model] : families()) {
    EXPECT_LT(worst_distance(options_of(model), {3, 9, 1}), 1e-5) << name;
    Options other = options_of(model);
    other.transfer.vocabulary_chunk = 16;
    other.device.execution = "resident";
    EXPECT_LT(worst_distance(other, {5, 2}), 1e-5) << name << " in chunks, resident";
    Options half = options_of(model);
    half.precision.compute = "bf16";
    EXPECT_LT(worst_distance(half, {4, 4}), 4e-2) << name << " in bf16";
  }
}

// Of the logits in fp32 that tokens are drawn from.
std::uint64_t logits_bytes(const MemoryContract& contract) {
  std::uint64_t bytes = 0;
  for (const ContractLine& line : contract.host) bytes += line.what == "logits of texts, in fp32" ? line.bytes : 0;
  return bytes;
}

// Device and page-locked bytes are those of the contract, also with a cache.
TEST(Generation, IsInTheContract) {
  for (const std::int64_t chunk : {0, 16}) {
    Options options = options_of(families().at("llama"));
    options.transfer.vocabulary_chunk = chunk;
    Trainer trainer(options);
    const MemoryContract before = trainer.contract();
    trainer.reserve_generation({.prompts = 3, .longest_prompt = 4, .tokens = 9});
    EXPECT_GT(trainer.contract().device_bytes, before.device_bytes);
    EXPECT_GT(trainer.contract().pinned_bytes, before.pinned_bytes);
    EXPECT_EQ(logits_bytes(trainer.contract()), (chunk > 0 ? 3 + 2 : 1 + 2) * 61 * sizeof(float));
    std::uint64_t lines = 0;
    for (const ContractLine& line : trainer.contract().device) lines += line.bytes;
    EXPECT_EQ(lines, trainer.contract().device_bytes);
    const std::vector<Tokens> prompts = {{1, 2, 3, 4}, {5}, {6, 7}};
    const std::vector<Tokens> cached = trainer.generate_all(prompts, {.tokens = 9, .temperature = 0});
    EXPECT_EQ(trainer.device_peak_bytes(), trainer.contract().device_bytes);
    // Each of the nine passes brings every layer once.
    Trainer once(options);
    once.reserve_generation({.prompts = 3, .longest_prompt = 4, .tokens = 9});
    once.generate_all(prompts, {.tokens = 1, .temperature = 0});
    EXPECT_EQ(trainer.link_counters().weights_h2d, 9 * once.link_counters().weights_h2d);
    Trainer plain(options);
    EXPECT_EQ(plain.generate_all(prompts, {.tokens = 9, .temperature = 0}), cached);
    // Beyond what was reserved, and beyond the context, every token runs its text.
    EXPECT_EQ(trainer.generate_all(prompts, {.tokens = 30, .temperature = 0}),
              plain.generate_all(prompts, {.tokens = 30, .temperature = 0}));
  }
  Options small = options_of(families().at("llama"));
  small.device.memory = Trainer(small).contract().device_bytes;
  Trainer trainer(small);
  EXPECT_THROW(trainer.reserve_generation({.prompts = 3, .longest_prompt = 4, .tokens = 9}), OutOfMemory);
}

TEST(Generation, GoesOnBehindTheContext) {
  for (const char* const name : {"gpt2", "mistral"}) {
    const Options options = options_of(families().at(name));
    Trainer plain(options), trainer(options);
    trainer.reserve_generation({.prompts = 2, .longest_prompt = 25, .tokens = 12});
    std::vector<Tokens> prompts = {some_tokens(25, 1), some_tokens(14, 2)};
    EXPECT_EQ(trainer.generate_all(prompts, {.tokens = 12, .temperature = 0}),
              plain.generate_all(prompts, {.tokens = 12, .temperature = 0}))
        << name;
  }
}

// A text gets the same tokens in any company, stops behind its own stop tokens, and when it is told to.
TEST(Generation, TextsAreApart) {
  Trainer trainer(options_of(families().at("llama")));
  trainer.reserve_generation({.prompts = 3, .longest_prompt = 4, .tokens = 9});
  const std::vector<Tokens> prompts = {{1, 2, 3, 4}, {5}, {6, 7}};
  GenerateOptions options{.tokens = 9, .temperature = 1, .top_k = 20, .top_p = 0.9};
  const std::vector<Tokens> all = trainer.generate_all(prompts, options);
  EXPECT_EQ(trainer.generate(prompts[0], options), all[0]);
  EXPECT_NE(all[0], all[1]);
  options.stop = {all[1][4]};
  std::vector<std::size_t> counts(3);
  const std::vector<Tokens> stopped = trainer.generate_all(
      prompts, options, [&](std::size_t text, std::int32_t) { return ++counts[text] < (text == 2 ? 3u : 100u); });
  for (std::size_t text = 0; text < 3; ++text) {
    const auto stop = std::find(all[text].begin(), all[text].end(), options.stop[0]);
    const auto end = std::min<std::ptrdiff_t>(stop - all[text].begin() + 1, text == 2 ? 3 : 9);
    EXPECT_EQ(stopped[text], Tokens(all[text].begin(), all[text].begin() + end)) << text;
  }
}

// That each text ends at once takes as long whatever is asked for.
TEST(Generation, EndsWithTheLastText) {
  Trainer trainer(options_of(families().at("llama")));
  constexpr std::int64_t kPrompts = 400, kMost = 1 << 24;
  trainer.reserve_generation({.prompts = kPrompts, .longest_prompt = 1, .tokens = 1});
  const std::vector<Tokens> prompts(kPrompts, Tokens{1});
  const auto seconds = [&](std::int64_t tokens) {
    const auto begin = std::chrono::steady_clock::now();
    const auto texts = trainer.generate_all(prompts, {.tokens = tokens}, [](auto, auto) { return false; });
    EXPECT_EQ(texts.size(), prompts.size());
    EXPECT_EQ(texts.back().size(), 1u);
    EXPECT_TRUE(trainer.generate_all({}, {.tokens = tokens}).empty());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double one = seconds(1);
  EXPECT_LT(seconds(kMost), 10 * one + 1);
}

#ifdef L2L_FAULT_POINTS
TEST(Generation, AnOverwrittenRowIsSeen) {
  for (const auto& [name, model] : families()) {
    arm_fault_point("generation.overwrite_row");
    EXPECT_GT(worst_distance(options_of(model), {3, 9, 1}), 1e-3) << name;
    arm_fault_point("");
  }
}
#endif

}  // namespace
}  // namespace l2l::generation_law
