// Rows that indices name: lookup, gather and its gradient.
#pragma once

#include "device/kernels/common/elementwise.cuh"

namespace l2l::device::cuda {

// Count elements from `column` on of row `index` of a matrix; NaN where there is no such row, which the loss shows.
template <int Count, typename T>
__device__ Floats<Count> row_or_nan(const T* matrix, std::int64_t index, std::int64_t rows, std::int64_t columns,
                                    std::int64_t column) {
  if (index >= 0 && index < rows) return load_floats<Count>(matrix + index * columns + column);
  Floats<Count> values;
#pragma unroll
  for (int i = 0; i < Count; ++i) values[i] = __int_as_float(0x7FC00000);
  return values;
}

// Of each sample, which rows of x are taken; `columns` of both matrices.
template <typename T>
struct GatheredRows : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const std::int32_t* indices = nullptr;
  std::int64_t rows, taken;  // of a sample

  GatheredRows(const OpView& op, std::size_t indices_at)
      : ElementwiseBody(op), rows(op.attributes.dims[1]), taken(op.input(indices_at).shape[0] / op.attributes.dims[0]) {
    columns = op.output(0).shape[1];
  }
};

}  // namespace l2l::device::cuda
