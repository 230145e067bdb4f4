// Vector clocks of many tensors in columns, to compare one tensor with many at a time.
#pragma once

#include <array>
#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// Immutable. Stores ranks of times within their stream, so that each comparison is one of 32 bits.
class ClockTable {
 public:
  static constexpr std::size_t kWidth = 256;
  using Mask = std::array<std::int32_t, kWidth>;  // -1: true, 0: false

  ClockTable(const Problem& problem, std::span<const Index> tensors);  // row i is tensors[i]

  std::size_t count() const { return count_; }
  // Of the rows [chunk * kWidth, (chunk + 1) * kWidth): which begin after row `i` is done. Entries beyond count() are
  // undefined.
  void after(std::size_t i, std::size_t chunk, Mask& mask) const;

 private:
  std::size_t count_, rows_, streams_;
  std::vector<std::int32_t> begin_, end_;  // [stream * rows_ + row]
};

}  // namespace l2l::compiler::memory
