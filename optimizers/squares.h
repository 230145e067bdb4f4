// Sums of squares of fp32 arrays.
#pragma once

#include <cstddef>
#include <span>

namespace l2l::optimizers {

// In double and sixteen fixed lanes: the bits depend on the values and their number alone. The square of an fp32 number
// is exact in double and no sum of them overflows: the result is not finite exactly if an element is not.
inline double sum_of_squares(std::span<const float> values) {
  constexpr std::size_t kLanes = 16;
  double lanes[kLanes] = {};
  const float* const from = values.data();
  const std::size_t whole = values.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = from[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (std::size_t i = whole; i < values.size(); ++i) {
    const double value = from[i];
    lanes[i - whole] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace l2l::optimizers
