#include "compiler/ir/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/ir/graph.h"

namespace l2l::compiler {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

double base_of(const Attributes& attributes, double size) {
  const double base = attributes.rotary_base;
  const RotaryScaling& scaling = attributes.rotary_scaling;
  const int sequence = attributes.positions > 0 ? attributes.positions : attributes.sequence;
  if (scaling.kind != RotaryScaling::Kind::dynamic || sequence <= scaling.positions) return base;
  const double factor = scaling.factor;
  const double length = factor * sequence / static_cast<double>(scaling.positions) - (factor - 1);
  return base * std::pow(length, size / (size - 2));
}

double llama3(const RotaryScaling& scaling, double frequency) {
  const double wavelengths = static_cast<double>(scaling.positions) * frequency / kTurn;  // in the original context
  const double kept = std::clamp(
      (wavelengths - scaling.low_frequency) / (static_cast<double>(scaling.high_frequency) - scaling.low_frequency),
      0.0, 1.0);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

// Where a pair turns `turns` times in the original context: the index of its first dimension.
double yarn_dimension(const Attributes& attributes, double size, double turns) {
  const double positions = static_cast<double>(attributes.rotary_scaling.positions);
  return size * std::log(positions / (turns * kTurn)) / (2 * std::log(static_cast<double>(attributes.rotary_base)));
}

void apply_yarn(const Attributes& attributes, double size, std::vector<double>& frequencies) {
  const RotaryScaling& scaling = attributes.rotary_scaling;
  double low = yarn_dimension(attributes, size, scaling.beta_fast);
  double high = yarn_dimension(attributes, size, scaling.beta_slow);
  if (scaling.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  for (std::size_t j = 0; j < frequencies.size(); ++j) {
    const double stretched = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    frequencies[j] *= stretched / scaling.factor + (1 - stretched);
  }
}

}  // namespace

std::vector<double> rotary_frequencies(const Attributes& attributes, std::int64_t pairs) {
  const auto size = static_cast<double>(2 * pairs);
  const double base = base_of(attributes, size);
  std::vector<double> frequencies;
  for (std::int64_t j = 0; j < pairs; ++j) {
    frequencies.push_back(std::pow(base, -static_cast<double>(j) / static_cast<double>(pairs)));
  }
  switch (attributes.rotary_scaling.kind) {
    case RotaryScaling::Kind::linear:
      for (double& frequency : frequencies) frequency /= attributes.rotary_scaling.factor;
      break;
    case RotaryScaling::Kind::llama3:
      for (double& frequency : frequencies) frequency = llama3(attributes.rotary_scaling, frequency);
      break;
    case RotaryScaling::Kind::yarn:
      apply_yarn(attributes, size, frequencies);
      break;
    case RotaryScaling::Kind::none:
    case RotaryScaling::Kind::dynamic:
      break;
  }
  return frequencies;
}

}  // namespace l2l::compiler
