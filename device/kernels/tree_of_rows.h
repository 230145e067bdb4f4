// Sums of rows in fp32, the leaves of a binary tree: ((0 + 1) + (2 + 3)) + ...
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "compiler/ir/op_table.h"
#include "device/kernels/convert.h"

namespace l2l::device::kernels {

// y[i] = the sum over `rows` rows of row_of(row)[i], for i in [0, count). At most compiler::kMostTreeRows rows. A
// stretch of elements at a time, whose unfinished sums stay in the first-level cache: after `row` rows there is one for
// each bit that is set in `row`.
template <typename RowOf, typename Y>
void add_tree_of_rows(std::int64_t rows, const RowOf& row_of, Y* y, std::int64_t count) {
  constexpr std::int64_t kStretch = 512;
  constexpr int kMostSums = std::bit_width(static_cast<std::uint64_t>(compiler::kMostTreeRows));
  alignas(64) float sums[kMostSums][kStretch];
  for (std::int64_t first = 0; first < count; first += kStretch) {
    const std::int64_t size = std::min(kStretch, count - first);
    int depth = 0;
    const auto add = [&] {
      --depth;
#pragma omp simd
      for (std::int64_t i = 0; i < size; ++i) sums[depth - 1][i] += sums[depth][i];
    };
    for (std::int64_t row = 0; row < rows; ++row) {
      widen_row(row_of(row) + first, sums[depth++], size);
      for (std::int64_t above = row; above % 2 == 1; above /= 2) add();
    }
    while (depth > 1) add();
    narrow_row(sums[0], y + first, size);
  }
}

}  // namespace l2l::device::kernels
