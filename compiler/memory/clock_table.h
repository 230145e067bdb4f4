// Clocks of many tensors side by side, for tests of one against all.
#pragma once

#include <array>
#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// Immutable. Times are replaced by their ranks within a stream, so that a comparison is one of 32 bits.
class ClockTable {
 public:
  static constexpr std::size_t kWidth = 256;
  using Mask = std::array<std::int32_t, kWidth>;  // -1: holds, 0: does not

  ClockTable(const Problem& problem, std::span<const Index> tensors);  // row i is tensors[i]

  std::size_t count() const { return count_; }
  // Of the rows [chunk * kWidth, ...): which begin after row `i` is done, and which are done before it begins. Entries
  // beyond count() mean nothing.
  void after(std::size_t i, std::size_t chunk, Mask& mask) const;
  void before(std::size_t i, std::size_t chunk, Mask& mask) const;

 private:
  // Sets where holds(time of row i, time of another) on all streams.
  template <typename Holds>
  void compare(const std::vector<std::int32_t>& own, std::size_t i, const std::vector<std::int32_t>& others,
               std::size_t chunk, Mask& mask, const Holds& holds) const;

  std::size_t count_, rows_, streams_;
  std::vector<std::int32_t> begin_, end_;  // [stream * rows_ + row]
};

}  // namespace l2l::compiler::memory
