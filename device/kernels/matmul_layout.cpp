#include "device/kernels/matmul_layout.h"

#include <algorithm>

namespace l2l::device::cuda {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
constexpr std::int64_t kMostParts = 16;  // of k, each with its f32 sums in the workspace

// A row-major matrix of `height` rows of `width` elements.
ColumnMajor by_columns(std::int64_t height, std::int64_t width, std::int64_t stride, bool transposed) {
  return {width, height, stride != 0 ? stride : width, transposed};
}

}  // namespace

LibraryProduct library_product(const MatmulShape& shape) {
  const auto& [m, n, k, input, output, transpose_a, transpose_b, stride_a, stride_b, stride_y, alignment, accumulate] =
      shape;
  return {transpose_b ? by_columns(n, k, stride_b, true) : by_columns(k, n, stride_b, false),
          transpose_a ? by_columns(k, m, stride_a, true) : by_columns(m, k, stride_a, false),
          by_columns(m, n, stride_y, false)};
}

std::uint64_t workspace_limit(const MatmulShape& shape) {
  const std::int64_t sums = kMostParts * shape.m * shape.n * static_cast<std::int64_t>(sizeof(float));
  return static_cast<std::uint64_t>(std::clamp(sums, 4 * kMebibyte, 32 * kMebibyte));
}

}  // namespace l2l::device::cuda
