#include "runtime/generator.h"

#include <algorithm>

#include "core/philox.h"
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

void check_continues(const RunPlan& plan) {
  if (plan.model.labels > 0) {
    throw BadInput("model.head = \"classification\" tells classes apart and cannot continue a text");
  }
  if (plan.model.causal) return;
  throw BadInput("model.architecture = \"" + plan.options.model.architecture +
                 "\" sees both sides of a token and cannot continue a text");
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

}  // namespace

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
  std::vector<float> logits(static_cast<std::size_t>(plan.model.vocabulary));
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    for (std::size_t which = 0; which < texts.size(); ++which) {
      Text& text = texts[which];
      if (text.ended) continue;
      run_whole(engine, plan, step, text.tokens, logits);
      const RngKey key{options.seed, 0, 0, static_cast<std::uint32_t>(which), kSamplingOp};
      const double uniform = to_uniform(philox(key, static_cast<std::uint32_t>(i))[0]);
      const std::int32_t token = draw_token(logits, options, uniform);
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
