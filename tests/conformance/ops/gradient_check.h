// Compares a gradient with central differences of the float64 reference of the forward op.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/conformance/ops/harness.h"

namespace l2l::test {

// Without rounding.
inline void run_exactly(const OpCase& test_case, Tensors& operands) {
  run_reference({test_case.graph, test_case.op(), test_case.parameters, operands, false});
}

// sum(weights * output 0) of the forward op.
inline double objective(const OpCase& forward, Tensors operands, const Tensor& weights) {
  run_exactly(forward, operands);
  const Tensor& y = operands[forward.op().inputs.size()];
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += weights[i] * y[i];
  return sum;
}

// Largest difference between `gradient` and central differences over up to 60 elements of input `input`, relative to
// the largest derivative.
inline double gradient_error(const OpCase& forward, const Tensors& operands, const Tensor& weights, std::size_t input,
                             const Tensor& gradient) {
  constexpr double kStep = 1e-4;
  std::mt19937 random(4);
  double difference = 0, largest = 1e-12;
  for (int sample = 0; sample < 60; ++sample) {
    const std::size_t i = random() % gradient.size();
    const auto at = [&](double steps) {
      Tensors moved = operands;
      moved[input][i] += steps * kStep;
      return objective(forward, moved, weights);
    };
    // Fourth order: the error of the quotient is far below the tolerance.
    const double derivative = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * kStep);
    difference = std::max(difference, std::abs(derivative - gradient[i]));
    largest = std::max(largest, std::abs(derivative));
  }
  return difference / largest;
}

// dy.
inline Tensor weights_for(const OpCase& forward) {
  std::mt19937_64 random(8);
  std::normal_distribution<double> normal;
  Tensor weights(static_cast<std::size_t>(forward.graph.value(forward.op().outputs[0]).shape.elements()));
  for (double& weight : weights) weight = normal(random);
  return weights;
}

inline Tensor zeros_like(const Tensor& tensor) { return Tensor(tensor.size(), 0.0); }

// Of gradient_error().
inline constexpr double kTolerance = 1e-6;

}  // namespace l2l::test
