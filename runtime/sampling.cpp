#include "runtime/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "l2l/errors.h"

namespace l2l::runtime {
namespace {

constexpr float kLeftOut = -std::numeric_limits<float>::infinity();

void keep_largest(std::span<float> logits, std::int64_t count) {
  if (count >= static_cast<std::int64_t>(logits.size())) return;
  std::vector<float> sorted(logits.begin(), logits.end());
  const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(count - 1);
  std::nth_element(sorted.begin(), last, sorted.end(), std::greater<>());
  for (float& logit : logits) {
    if (logit < *last) logit = kLeftOut;
  }
}

void keep_probable(std::span<float> logits, double probability) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::sort(order.begin(), order.end(),
            [&](std::int32_t a, std::int32_t b) { return logit(a) != logit(b) ? logit(a) < logit(b) : a < b; });
  const double top = logit(order.back());
  double all = 0;
  for (const std::int32_t id : order) all += std::exp(logit(id) - top);
  order.pop_back();
  double sum = 0;
  for (const std::int32_t id : order) {
    sum += std::exp(logit(id) - top) / all;
    if (sum > 1 - probability) return;
    logits[static_cast<std::size_t>(id)] = kLeftOut;
  }
}

}  // namespace

void check_sampling(const GenerateOptions& options) {
  const auto check = [](bool good, const char* field, const char* range) {
    if (!good) throw BadInput(std::string(field) + " must be " + range);
  };
  check(options.tokens >= 0 && options.tokens <= (1 << 24), "tokens", "0 to 2^24");
  check(options.temperature >= 0 && std::isfinite(options.temperature), "temperature", "at least 0");
  check(options.top_k >= 0, "top_k", "at least 0");
  check(options.top_p > 0 && options.top_p <= 1, "top_p", "above 0 and at most 1");
}

void filter_logits(std::span<float> logits, const GenerateOptions& options) {
  for (float& logit : logits) logit = static_cast<float>(logit / options.temperature);
  if (options.top_k > 0) keep_largest(logits, options.top_k);
  if (options.top_p < 1) keep_probable(logits, options.top_p);
}

std::int32_t draw_token(std::span<float> logits, const GenerateOptions& options, double uniform) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  const auto likeliest = static_cast<std::int32_t>(largest - logits.begin());
  if (options.temperature <= 0) return likeliest;
  filter_logits(logits, options);
  const double top = *largest;
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  double rest = uniform * sum;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    rest -= std::exp(logits[i] - top);
    if (rest < 0) return static_cast<std::int32_t>(i);
  }
  return likeliest;
}

}  // namespace l2l::runtime
