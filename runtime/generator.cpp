#include "runtime/generator.h"

#include <algorithm>
#include <cmath>

#include "core/philox.h"

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

// Index drawn from softmax(logits / temperature) by one uniform number; the largest logit at temperature 0.
std::int32_t draw(std::span<float> logits, double temperature, double uniform) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return static_cast<std::int32_t>(largest - logits.begin());
  const double top = *largest;
  double sum = 0;
  for (const float logit : logits) sum += std::exp((logit - top) / temperature);
  double rest = uniform * sum;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    rest -= std::exp((logits[i] - top) / temperature);
    if (rest < 0) return static_cast<std::int32_t>(i);
  }
  return static_cast<std::int32_t>(largest - logits.begin());
}

}  // namespace

std::vector<std::int32_t> generate(Engine& engine, const RunPlan& plan, std::uint64_t step,
                                   std::span<const std::int32_t> prompt, const GenerateOptions& options) {
  if (plan.model.labels > 0) {
    throw BadInput("model.head = \"" + plan.options.model.head +
                   "\" does not predict tokens and cannot continue a text");
  }
  if (!plan.model.causal) {
    throw BadInput("model.architecture = \"" + plan.options.model.architecture +
                   "\" sees both sides of a token and cannot continue a text");
  }
  check_tokens("prompt", prompt, plan.model.vocabulary);
  Minibatch& minibatch = engine.minibatch();
  minibatch.set_longest(0);
  const auto sequence = static_cast<std::size_t>(plan.options.model.sequence);
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  std::vector<float> logits(static_cast<std::size_t>(plan.model.vocabulary));
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const std::size_t context = std::min(tokens.size(), sequence);
    const std::span<std::int32_t> input = minibatch.tokens(0);
    std::fill(input.begin(), input.end(), 0);
    std::copy(tokens.end() - static_cast<std::ptrdiff_t>(context), tokens.end(), input.begin());
    engine.predict(step, {static_cast<std::int64_t>(context) - 1, 1},
                   [&](std::int64_t, std::int64_t first_token, std::span<const float> values) {
                     std::copy(values.begin(), values.end(), logits.begin() + first_token);
                   });
    const PhiloxBlock words = philox({options.seed, 0, 0, 0, kSamplingOp}, static_cast<std::uint32_t>(i));
    tokens.push_back(draw(logits, options.temperature, to_uniform(words[0])));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
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
