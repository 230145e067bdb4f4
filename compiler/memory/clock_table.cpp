#include "compiler/memory/clock_table.h"

#include <algorithm>

namespace l2l::compiler::memory {

ClockTable::ClockTable(const Problem& problem, std::span<const Index> tensors)
    : count_(tensors.size()), rows_((tensors.size() + kWidth - 1) / kWidth * kWidth), streams_(problem.streams) {
  begin_.resize(streams_ * rows_);
  end_.resize(streams_ * rows_);
  std::vector<Time> times;
  for (std::size_t s = 0; s < streams_; ++s) {
    times.clear();
    for (const Index t : tensors) {
      times.push_back(problem.begin_of(t)[s]);
      times.push_back(problem.end_of(t)[s]);
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    const auto rank = [&](Time time) {
      return static_cast<std::int32_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
    };
    for (std::size_t i = 0; i < count_; ++i) {
      begin_[s * rows_ + i] = rank(problem.begin_of(tensors[i])[s]);
      end_[s * rows_ + i] = rank(problem.end_of(tensors[i])[s]);
    }
  }
}

void ClockTable::after(std::size_t i, std::size_t chunk, Mask& mask) const {
  mask.fill(-1);
  for (std::size_t s = 0; s < streams_; ++s) {
    const std::int32_t end = end_[s * rows_ + i];
    const std::int32_t* const begin = begin_.data() + s * rows_ + chunk * kWidth;
#pragma omp simd
    for (std::size_t k = 0; k < kWidth; ++k) mask[k] &= -static_cast<std::int32_t>(end <= begin[k]);
  }
}

}  // namespace l2l::compiler::memory
