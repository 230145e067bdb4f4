// Sums over some dimensions of a matrix that stands for four, on the host.
#pragma once

#include <algorithm>

#include "device/kernels/convert.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/reduce.h"
#include "device/kernels/strides.h"

namespace l2l::device::kernels {

// Sums are made in units of at most kLine results that are neighbours. Each is a sum of terms: rows, where the last
// dimension is kept, or else, for a single result, parts of rows. Where units are few, blocks of terms are summed
// first, then the blocks in ascending order.
template <typename T>
class KeptSums {
 public:
  explicit KeptSums(const compiler::Attributes& attributes) : dims_(attributes) {
    const auto& sizes = dims_.sizes;
    line_ = {sizes[3], dims_.last_kept ? kLine : kPart};
    units_ = dims_.last_kept ? sizes[1] * line_.count() : sizes[0] * sizes[2];
    const std::int64_t terms = dims_.last_kept ? sizes[0] * sizes[2] : sizes[1] * line_.count();
    const std::int64_t least = std::max<std::int64_t>(1, kBlockElements / line_.size);
    blocks_ = {terms, units_ >= kManyUnits ? terms : std::max(least, (terms + kMostBlocks - 1) / kMostBlocks)};
  }

  Bytes workspace() const {
    return blocks_.count() > 1 ? static_cast<Bytes>(blocks_.count() * units_ * kLine) * sizeof(double) : 0;
  }

  // Calls give(first, sums, count) with the sums, as double, of the elements [first, first + count) of the result; from
  // several threads, for each element once.
  template <typename Give>
  void run(const T* x, std::byte* workspace, Workers& workers, const Give& give) const {
    double* const partials = as<double>(workspace);
    const std::int64_t blocks = blocks_.count();
    for_rows(units_ * blocks, blocks_.size * std::min(line_.size, dims_.sizes[3]), workers, [&](std::int64_t task) {
      const Unit unit = unit_of(task / blocks);
      double own[kLine];
      double* const sums = blocks > 1 ? partials + task * kLine : own;
      std::fill_n(sums, unit.count, 0.0);
      add_terms(x, unit, task % blocks, sums);
      if (blocks == 1) give(unit.first, sums, unit.count);
    });
    if (blocks == 1) return;
    for (std::int64_t index = 0; index < units_; ++index) {
      const Unit unit = unit_of(index);
      double* const sums = partials + index * blocks * kLine;
      for (std::int64_t block = 1; block < blocks; ++block) {
        for (std::int64_t i = 0; i < unit.count; ++i) sums[i] += sums[block * kLine + i];
      }
      give(unit.first, sums, unit.count);
    }
  }

 private:
  static constexpr std::int64_t kLine = 64, kPart = kBlockElements, kRows = 64;
  static constexpr std::int64_t kManyUnits = 32, kMostBlocks = 16;

  struct Unit {
    std::int64_t first, count;   // elements of the result
    std::int64_t outer, column;  // its places along the kept dimensions
  };

  Unit unit_of(std::int64_t index) const {
    if (!dims_.last_kept) return {index, 1, index / dims_.sizes[2], index % dims_.sizes[2]};
    const std::int64_t outer = index / line_.count(), column = line_.begin(index % line_.count());
    return {outer * dims_.sizes[3] + column, line_.end(index % line_.count()) - column, outer, column};
  }

  void add_terms(const T* x, const Unit& unit, std::int64_t block, double* sums) const {
    if (dims_.last_kept) {
      add_rows(x, unit, block, sums);
    } else {
      add_parts(x, unit, block, sums);
    }
  }

  // Partial sums of kRows rows in fp32.
  void add_rows(const T* x, const Unit& unit, std::int64_t block, double* sums) const {
    const auto& sizes = dims_.sizes;
    for (std::int64_t row = blocks_.begin(block); row < blocks_.end(block);) {
      float partial[kLine] = {};
      for (const std::int64_t end = std::min(blocks_.end(block), row + kRows); row < end; ++row) {
        const std::int64_t place = (row / sizes[2] * sizes[1] + unit.outer) * sizes[2] + row % sizes[2];
        const T* const line = x + place * sizes[3] + unit.column;
#pragma omp simd
        for (std::int64_t i = 0; i < unit.count; ++i) partial[i] += widen(line[i]);
      }
      for (std::int64_t i = 0; i < unit.count; ++i) sums[i] += static_cast<double>(partial[i]);
    }
  }

  void add_parts(const T* x, const Unit& unit, std::int64_t block, double* sums) const {
    const auto& sizes = dims_.sizes;
    for (std::int64_t term = blocks_.begin(block); term < blocks_.end(block); ++term) {
      const std::int64_t row = term / line_.count(), part = term % line_.count();
      const std::int64_t place = (unit.outer * sizes[1] + row) * sizes[2] + unit.column;
      const T* const line = x + place * sizes[3] + line_.begin(part);
      *sums += static_cast<double>(sum_of_part(line, line_.end(part) - line_.begin(part)));
    }
  }

  static float sum_of_part(const T* x, std::int64_t count) {
    if (count > 16) return sum_of(count, [x](std::int64_t i) { return widen(x[i]); });
    float sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += widen(x[i]);
    return sum;
  }

  KeptDims dims_;
  Partition line_{}, blocks_{};  // of the last dimension, and of the terms
  std::int64_t units_ = 0;
};

}  // namespace l2l::device::kernels
