// The results of a short run, and how far those of two runs are apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace l2l::testing {

struct Outcome {
  std::vector<double> losses;
  double validation = 0;
  std::vector<std::int32_t> tokens;
  std::uint64_t hash = 0;
  bool operator==(const Outcome&) const = default;
};

// Relative difference of the losses, the largest.
inline double difference(const Outcome& a, const Outcome& b) {
  double largest = std::abs(a.validation / b.validation - 1);
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    largest = std::max(largest, std::abs(a.losses[i] / b.losses[i] - 1));
  }
  return largest;
}

}  // namespace l2l::testing
