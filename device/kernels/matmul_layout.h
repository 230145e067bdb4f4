// Expresses a row-major product for cuBLASLt, which reads column-major matrices and adds a bias to each of their
// columns. Needs no CUDA.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace l2l::device::cuda {

// y [m, n] = op(a) op(b), row-major: a is [m, k], or [k, m] if transposed; b is [k, n], or [n, k].
struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  DType input = DType::f32;   // of a and b: f32, bf16 or f16
  DType output = DType::f32;  // f32 or `input`
  bool transpose_a = false;
  bool transpose_b = false;
  // Elements from row to row in memory; 0: dense.
  std::int64_t stride_a = 0, stride_b = 0, stride_y = 0;
  std::uint32_t alignment = 16;  // bytes, of all addresses
  bool accumulate = false;       // y += product where algorithms are timed; either may be enqueued
};

// A matrix in memory as the library sees it: element (row, column) at row + column * leading. `transposed`: its
// transpose is the factor.
struct ColumnMajor {
  std::int64_t rows, columns, leading;
  bool transposed;
};

// d = first second. A row-major matrix read by columns is its transpose, so y^T = op(b)^T op(a)^T: `first` lies in b's
// memory, `second` in a's, and a bias of n elements runs along the rows of d [n, m].
struct LibraryProduct {
  ColumnMajor first, second, d;
};

LibraryProduct library_product(const MatmulShape& shape);

// Most bytes of workspace that the library may use for this product: 32 MiB, less where parts of y are small.
std::uint64_t workspace_limit(const MatmulShape& shape);

}  // namespace l2l::device::cuda
