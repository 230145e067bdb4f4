// Sums of rows in fp32, the leaves of a binary tree: counterpart of tree_of_rows.h.
#pragma once

#include <bit>

#include "compiler/ir/op_table.h"
#include "device/kernels/common/elementwise.cuh"

namespace l2l::device::cuda {

// y, a row, = the sum of the rows of x, at most compiler::kMostTreeRows. Moves an element of T in for each row, and one
// of Y out.
template <typename T, typename Y>
struct TreeOfRowsBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  static constexpr int kLevels = std::bit_width(static_cast<std::uint64_t>(compiler::kMostTreeRows));
  std::int64_t rows;
  const T* x = nullptr;
  Y* y = nullptr;

  TreeOfRowsBody(const OpView& op, std::int64_t rows) : ElementwiseBody(op), rows(rows) { columns = elements; }

  // Level l has the sum of 2^l rows that waits for the next one, where that bit of the rows so far is set. Loops over
  // levels are unrolled, so that sums stay in registers.
  template <int Count>
  __device__ Floats<Count> values(std::int64_t first) const {
    Floats<Count> waiting[kLevels];
    for (std::int64_t row = 0; row < rows; ++row) {
      Floats<Count> sum = load_floats<Count>(x + row * columns + first);
      bool carries = true;
#pragma unroll
      for (int level = 0; level < kLevels; ++level) {
        if (!carries) continue;
        carries = (row >> level) % 2 == 1;
        if (carries) {
          add(sum, waiting[level], sum);
        } else {
          waiting[level] = sum;
        }
      }
    }
    Floats<Count> total{};
    bool begun = false;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if ((rows >> level) % 2 == 0) continue;
      if (begun) {
        add(total, waiting[level], total);
      } else {
        total = waiting[level];
      }
      begun = true;
    }
    return total;
  }

 private:
  template <int Count>
  __device__ static void add(Floats<Count>& sum, const Floats<Count>& a, const Floats<Count>& b) {
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] = a[i] + b[i];
  }
};

}  // namespace l2l::device::cuda
