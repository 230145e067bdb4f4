#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace l2l::runtime {

// Of at least one value; the upper one of two.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace l2l::runtime
