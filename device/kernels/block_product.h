// The product of small fp32 matrices in cache: what attention and the portable matrix product are made of.
#pragma once

#include <cstddef>
#include <cstdint>

namespace l2l::device::kernels {

// Element (i, k) lies at data[i * row + k * step], so that a transposed matrix needs no copy.
struct BlockView {
  const float* data;
  std::ptrdiff_t row;
  std::ptrdiff_t step;
};

// c[rows, columns] = a[rows, steps] b[steps, columns], or += with `accumulate`. b and c are row-major with strides
// `b_row` and `c_row`; `columns` is a multiple of kLanes. Each sum runs over the steps in ascending order.
void block_product(std::int64_t rows, std::int64_t columns, std::int64_t steps, BlockView a, const float* b,
                   std::ptrdiff_t b_row, float* c, std::ptrdiff_t c_row, bool accumulate);

}  // namespace l2l::device::kernels
