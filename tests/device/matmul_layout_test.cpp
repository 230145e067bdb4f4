// The descriptors of a product, read as cuBLASLt reads them (column-major: element (row, column) at
// row + column * leading), describe the row-major product that was asked for.
#include "device/kernels/matmul_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

namespace l2l::device::cuda {
namespace {

using Memory = std::vector<std::int64_t>;

constexpr std::int64_t kUntouched = -1;

std::int64_t stride_of(std::int64_t stride, std::int64_t width) { return stride != 0 ? stride : width; }

// Distinct numbers for `height` rows of `stride`.
Memory filled(std::int64_t height, std::int64_t stride, std::int64_t seed) {
  Memory memory(static_cast<std::size_t>(height * stride));
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = (static_cast<std::int64_t>(i) * 7919 + seed) % 1009;
  return memory;
}

struct Operands {
  Memory a, b;
  std::size_t y;
};

Operands operands_of(const MatmulShape& shape) {
  const std::int64_t a_height = shape.transpose_a ? shape.k : shape.m, a_width = shape.transpose_a ? shape.m : shape.k;
  const std::int64_t b_height = shape.transpose_b ? shape.n : shape.k, b_width = shape.transpose_b ? shape.k : shape.n;
  return {filled(a_height, stride_of(shape.stride_a, a_width), 3),
          filled(b_height, stride_of(shape.stride_b, b_width), 501),
          static_cast<std::size_t>(shape.m * stride_of(shape.stride_y, shape.n))};
}

// What MatmulShape says, by rows.
Memory row_major(const MatmulShape& shape, const Operands& operands) {
  const std::int64_t a_stride = stride_of(shape.stride_a, shape.transpose_a ? shape.m : shape.k);
  const std::int64_t b_stride = stride_of(shape.stride_b, shape.transpose_b ? shape.k : shape.n);
  Memory y(operands.y, kUntouched);
  for (std::int64_t i = 0; i < shape.m; ++i) {
    for (std::int64_t j = 0; j < shape.n; ++j) {
      std::int64_t sum = 0;
      for (std::int64_t l = 0; l < shape.k; ++l) {
        const std::int64_t a = shape.transpose_a ? l * a_stride + i : i * a_stride + l;
        const std::int64_t b = shape.transpose_b ? j * b_stride + l : l * b_stride + j;
        sum += operands.a[static_cast<std::size_t>(a)] * operands.b[static_cast<std::size_t>(b)];
      }
      y[static_cast<std::size_t>(i * stride_of(shape.stride_y, shape.n) + j)] = sum;
    }
  }
  return y;
}

std::int64_t height(const ColumnMajor& factor) { return factor.transposed ? factor.columns : factor.rows; }
std::int64_t width(const ColumnMajor& factor) { return factor.transposed ? factor.rows : factor.columns; }

std::int64_t element(const ColumnMajor& factor, const Memory& memory, std::int64_t row, std::int64_t column) {
  if (factor.transposed) std::swap(row, column);
  return memory.at(static_cast<std::size_t>(row + column * factor.leading));
}

// What the library computes; nothing where it would refuse, or leave the operands.
std::optional<Memory> by_columns(const LibraryProduct& product, const Operands& operands) {
  const auto& [first, second, d] = product;
  for (const ColumnMajor& matrix : {first, second, d}) {
    if (matrix.leading < matrix.rows) return std::nullopt;
  }
  if (height(first) != d.rows || width(second) != d.columns || width(first) != height(second)) return std::nullopt;
  Memory y(operands.y, kUntouched);
  try {
    for (std::int64_t row = 0; row < d.rows; ++row) {
      for (std::int64_t column = 0; column < d.columns; ++column) {
        std::int64_t sum = 0;
        for (std::int64_t l = 0; l < width(first); ++l) {
          sum += element(first, operands.b, row, l) * element(second, operands.a, l, column);
        }
        y.at(static_cast<std::size_t>(row + column * d.leading)) = sum;
      }
    }
  } catch (const std::out_of_range&) {
    return std::nullopt;
  }
  return y;
}

std::vector<MatmulShape> shapes() {
  std::vector<MatmulShape> shapes;
  const std::int64_t sizes[][3] = {{1, 1, 1}, {1, 24, 8}, {5, 1, 7}, {4, 6, 33}, {9, 5, 3}, {7, 7, 7}};
  for (const auto& [m, n, k] : sizes) {
    for (int bits = 0; bits < 8; ++bits) {
      MatmulShape shape;
      shape.m = m, shape.n = n, shape.k = k;
      shape.transpose_a = bits & 1;
      shape.transpose_b = bits & 2;
      if (bits & 4) {
        shape.stride_a = (shape.transpose_a ? m : k) + 3;
        shape.stride_b = (shape.transpose_b ? k : n) + 5;
        shape.stride_y = n + 2;
      }
      shapes.push_back(shape);
    }
  }
  return shapes;
}

TEST(MatmulLayout, DescribesTheProduct) {
  for (const MatmulShape& shape : shapes()) {
    const Operands operands = operands_of(shape);
    EXPECT_EQ(by_columns(library_product(shape), operands), row_major(shape, operands));
  }
}

// A bias has as many elements as d has rows (cublasLt.h, CUBLASLT_EPILOGUE_BIAS), and ours has n.
TEST(MatmulLayout, TheBiasRunsAlongTheRowsOfTheLibrarysResult) {
  for (const MatmulShape& shape : shapes()) EXPECT_EQ(library_product(shape).d.rows, shape.n);
}

TEST(MatmulLayout, MistakesAreNoticed) {
  using Mistake = std::function<void(LibraryProduct&)>;
  const Mistake mistakes[] = {
      [](LibraryProduct& product) { product.first.transposed ^= true; },
      [](LibraryProduct& product) { product.second.transposed ^= true; },
      [](LibraryProduct& product) { std::swap(product.first, product.second); },
      [](LibraryProduct& product) { std::swap(product.first.rows, product.first.columns); },
      [](LibraryProduct& product) { ++product.first.leading; },
      [](LibraryProduct& product) { ++product.second.leading; },
      [](LibraryProduct& product) { ++product.d.leading; },
  };
  for (const MatmulShape& shape : shapes()) {
    if (std::min({shape.m, shape.n, shape.k}) == 1 || shape.m == shape.n) continue;  // some mistakes change nothing
    const Operands operands = operands_of(shape);
    for (const Mistake& make : mistakes) {
      LibraryProduct product = library_product(shape);
      make(product);
      EXPECT_NE(by_columns(product, operands), row_major(shape, operands));
    }
  }
}

TEST(MatmulLayout, SmallProductsGetLessWorkspace) {
  MatmulShape shape;
  shape.m = shape.n = 8;
  EXPECT_EQ(workspace_limit(shape), std::uint64_t{4} << 20);
  shape.m = shape.n = 4096;
  EXPECT_EQ(workspace_limit(shape), std::uint64_t{32} << 20);
}

}  // namespace
}  // namespace l2l::device::cuda
