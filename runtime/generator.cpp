#include "runtime/generator.h"

#include <algorithm>
#include <functional>

#include "core/error_place.h"
#include "core/philox.h"
#include "models/architecture.h"
#include "runtime/sampling.h"

namespace l2l::runtime {
namespace {

constexpr std::uint32_t kSamplingOp = 255;  // no op of a graph has this number

void check_tokens(const char* what, std::span<const std::int32_t> tokens, std::int64_t vocabulary) {
  if (tokens.empty()) throw BadInput(std::string(what) + ": empty; give at least one token");
  for (const std::int32_t token : tokens) {
    if (token < 0 || token >= vocabulary) {
      throw BadInput(std::string(what) + ": token " + std::to_string(token) + " is not below the vocabulary of " +
                     std::to_string(vocabulary));
    }
  }
}

// A text that is continued.
struct Text {
  std::vector<std::int32_t> tokens;
  std::size_t prompt = 0;
  bool ended = false;

  std::vector<std::int32_t> continuation() const {
    return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt), tokens.end()};
  }
};

// The logits behind the last of `tokens`, by running all of them, the last model.sequence ones, through the model.
void run_whole(Engine& engine, const RunPlan& plan, std::uint64_t step, std::span<const std::int32_t> tokens,
               std::span<float> logits) {
  engine.minibatch().set_longest(0);
  const std::size_t context = std::min(tokens.size(), static_cast<std::size_t>(plan.options.model.sequence));
  const std::span<std::int32_t> input = engine.minibatch().tokens(0);
  std::fill(input.begin(), input.end(), 0);
  std::copy(tokens.end() - static_cast<std::ptrdiff_t>(context), tokens.end(), input.begin());
  engine.predict(step, {static_cast<std::int64_t>(context) - 1, 1},
                 [&](std::int64_t, std::int64_t first_token, std::span<const float> values) {
                   std::copy(values.begin(), values.end(), logits.begin() + first_token);
                 });
}

// Gives the logits behind texts: with the cache where the engine has one for them, or else by running them whole.
class NextLogits {
 public:
  // Gets the logits of a text, which it may change; they are lost when it returns.
  using Take = std::function<void(std::size_t text, std::span<float> logits)>;

  NextLogits(Engine& engine, const RunPlan& plan, std::uint64_t step, const std::vector<Text>& texts,
             std::int64_t tokens)
      : engine_(engine),
        plan_(plan),
        step_(step),
        cached_(texts.size(), 0),
        uses_cache_(fits(texts, tokens)),
        logits_((uses_cache_ && plan.model.head_in_chunks() ? texts.size() : 1) *
                static_cast<std::size_t>(plan.model.vocabulary)) {}

  // Of every text that has not ended.
  void find(const std::vector<Text>& texts, const Take& take) {
    if (uses_cache_) return find_with_cache(texts, take);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].ended) continue;
      run_whole(engine_, plan_, step_, texts[i].tokens, logits_);
      take(i, logits_);
    }
  }

 private:
  bool fits(const std::vector<Text>& texts, std::int64_t tokens) const {
    const GenerationPlan* const cache = engine_.generation_plan();
    if (cache == nullptr || static_cast<std::int64_t>(texts.size()) > cache->texts()) return false;
    const std::int64_t sequence = plan_.options.model.sequence;
    return std::all_of(texts.begin(), texts.end(), [&](const Text& text) {
      const auto prompt = static_cast<std::int64_t>(text.prompt);
      return std::min(prompt + tokens, sequence) <= cache->capacity() &&
             (prompt + tokens > sequence ? sequence : prompt) <= cache->longest();
    });
  }

  // A text whose rows are all in the cache but the last one adds that; any other is run whole, the last rows that the
  // model takes.
  void find_with_cache(const std::vector<Text>& texts, const Take& take) {
    const std::int64_t capacity = engine_.generation_plan()->capacity();
    std::vector<TextTokens> whole;
    std::vector<NextToken> rows;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].ended) continue;
      const std::span<const std::int32_t> tokens = texts[i].tokens;
      const auto count = static_cast<std::int64_t>(tokens.size());
      if (cached_[i] > 0 && cached_[i] + 1 == count && count <= capacity) {
        rows.push_back({i, tokens.back(), cached_[i]});
      } else {
        whole.push_back({i, tokens.last(static_cast<std::size_t>(std::min(count, capacity)))});
      }
      cached_[i] = count <= capacity ? count : 0;
    }
    // Chunks come in order, each with those of all texts.
    const auto gather = [&](std::size_t text, std::int64_t first_token, std::span<const float> values) {
      const auto vocabulary = static_cast<std::size_t>(plan_.model.vocabulary);
      const std::size_t first = logits_.size() > vocabulary ? text * vocabulary : 0;
      const std::span<float> row = std::span(logits_).subspan(first, vocabulary);
      std::copy(values.begin(), values.end(), row.begin() + first_token);
      if (static_cast<std::size_t>(first_token) + values.size() == vocabulary) take(text, row);
    };
    if (!whole.empty()) engine_.run_texts(step_, whole, gather);
    if (!rows.empty()) engine_.run_rows(step_, rows, gather);
  }

  Engine& engine_;
  const RunPlan& plan_;
  const std::uint64_t step_;
  std::vector<std::int64_t> cached_;  // by text: rows in the cache
  const bool uses_cache_;
  std::vector<float> logits_;  // of a text or, where the head comes in chunks for all at once, of each
};

void check_whole_layers(const RunPlan& plan) {
  if (plan.execution.tensor == 1) return;
  throw BadInput("device.tensor = " + std::to_string(plan.execution.tensor) +
                     ": logits of layers that are split over devices are not built; a checkpoint of the run loads with "
                     "device.tensor = 1, too",
                 of_key("device.tensor"));
}

}  // namespace

void check_continues(const RunPlan& plan) {
  check_whole_layers(plan);
  if (plan.model.labels > 0) {
    throw BadInput("model.head = \"" + plan.options.model.head +
                   "\" does not predict tokens and cannot continue a text");
  }
  if (plan.model.causal) return;
  const bool encoder = models::architecture_of(plan.options.model.architecture).encoder;
  throw BadInput((encoder ? "model.architecture = \"" + plan.options.model.architecture + "\""
                          : "model.blocks has attention that is not causal: the model") +
                 " sees both sides of a token and cannot continue a text");
}

std::vector<std::vector<std::int32_t>> generate(Engine& engine, const RunPlan& plan, std::uint64_t step,
                                                const std::vector<std::vector<std::int32_t>>& prompts,
                                                const GenerateOptions& options, const TakeToken& take) {
  check_continues(plan);
  check_sampling(options);
  std::vector<Text> texts;
  for (const std::vector<std::int32_t>& prompt : prompts) {
    check_tokens("prompt", prompt, plan.model.vocabulary);
    texts.push_back({prompt, prompt.size()});
  }
  NextLogits next(engine, plan, step, texts, options.tokens);
  std::vector<std::int32_t> drawn(texts.size());
  const auto goes_on = [](const Text& text) { return !text.ended; };
  for (std::int64_t i = 0; i < options.tokens && std::ranges::any_of(texts, goes_on); ++i) {
    next.find(texts, [&](std::size_t which, std::span<float> logits) {
      const RngKey key{options.seed, 0, 0, static_cast<std::uint32_t>(which), kSamplingOp};
      const double uniform = to_uniform(philox(key, static_cast<std::uint32_t>(i))[0]);
      drawn[which] = draw_token(logits, options, uniform);
    });
    for (std::size_t which = 0; which < texts.size(); ++which) {
      Text& text = texts[which];
      if (text.ended) continue;
      const std::int32_t token = drawn[which];
      text.tokens.push_back(token);
      text.ended = std::find(options.stop.begin(), options.stop.end(), token) != options.stop.end();
      if (take && !take(which, token)) text.ended = true;
    }
  }
  std::vector<std::vector<std::int32_t>> continuations;
  for (const Text& text : texts) continuations.push_back(text.continuation());
  return continuations;
}

void predict_sequence(Engine& engine, const RunPlan& plan, std::uint64_t step, std::span<const std::int32_t> tokens,
                      bool hidden, const TakeValues& take) {
  check_whole_layers(plan);
  if (plan.model.head_kind == models::HeadKind::custom) {
    throw BadInput("model.architecture = \"" + plan.options.model.architecture +
                   "\" takes no tokens: Trainer::predict() gives what its last layer returns");
  }
  if (hidden && plan.model.streams()) throw BadInput("model.reversible: a hidden state is two streams here");
  check_tokens("tokens", tokens, plan.model.vocabulary);
  const std::int64_t sequence = plan.options.model.sequence, count = static_cast<std::int64_t>(tokens.size());
  if (count > sequence || (!plan.model.causal && count != sequence)) {
    throw BadInput("tokens: " + std::to_string(count) + " for model.sequence = " + std::to_string(sequence) +
                   (count > sequence ? "" : ", all of which the model sees at once") + "; set it to " +
                   std::to_string(count));
  }
  engine.minibatch().set_longest(0);
  const std::span<std::int32_t> input = engine.minibatch().tokens(0);
  std::fill(input.begin(), input.end(), 0);
  std::copy(tokens.begin(), tokens.end(), input.begin());
  engine.predict(step, {0, count, hidden}, take);
}

}  // namespace l2l::runtime
