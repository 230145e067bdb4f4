// Blocked and packed like Goto's GEMM: panels of b stay in cache while rows of a pass; sums are fp32 in ascending order
// of k. Reference: K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", TOMS 2008.
#include "device/kernels/packed_product.h"

#include <algorithm>

#include "device/kernels/block_product.h"
#include "device/kernels/common/operands.h"
#include "device/kernels/convert.h"
#include "device/kernels/lanes.h"

namespace l2l::device::kernels {
namespace {

constexpr std::int64_t kRows = 96, kColumns = 64, kSteps = 256;  // a: 96 KiB and b: 64 KiB per block, in L2

// fp32 buffers of one slot.
struct Packed {
  float* a;  // [kRows][kSteps] or its transpose
  float* b;  // [kSteps][kColumns]
  float* c;  // [rows of the tile][kColumns]
  Bytes bytes;

  Packed(std::byte* base, std::int64_t tile_rows) {
    WorkspaceCutter cutter(base);
    a = cutter.take<float>(kRows * kSteps);
    b = cutter.take<float>(kSteps * kColumns);
    c = cutter.take<float>(tile_rows * kColumns);
    bytes = cutter.used();
  }
};

struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// Rows and steps of a as block_product reads them: fp32 where it lies, halves widened into `packed`, its order kept.
BlockView view_of_a(const MatmulShape& shape, const float* a, Range rows, Range steps, float*) {
  if (shape.transpose_a) return {a + steps.begin * shape.m + rows.begin, 1, shape.m};
  return {a + rows.begin * shape.k + steps.begin, shape.k, 1};
}

template <typename T>
BlockView view_of_a(const MatmulShape& shape, const T* a, Range rows, Range steps, float* packed) {
  if (shape.transpose_a) {
    for (std::int64_t k = steps.begin; k < steps.end; ++k) {
      widen_row(a + k * shape.m + rows.begin, packed + (k - steps.begin) * kRows, rows.size());
    }
    return {packed, 1, kRows};
  }
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    widen_row(a + i * shape.k + steps.begin, packed + (i - rows.begin) * kSteps, steps.size());
  }
  return {packed, kSteps, 1};
}

// Steps and columns of b, row-major and padded with zeros to kColumns.
template <typename T>
void pack_b(const MatmulShape& shape, const T* b, Range steps, Range columns, float* packed) {
  if (columns.size() < kColumns) std::fill(packed, packed + kSteps * kColumns, 0.0f);
  if (!shape.transpose_b) {
    for (std::int64_t k = steps.begin; k < steps.end; ++k) {
      widen_row(b + k * shape.n + columns.begin, packed + (k - steps.begin) * kColumns, columns.size());
    }
    return;
  }
  for (std::int64_t j = columns.begin; j < columns.end; ++j) {
    float line[kSteps];
    widen_row(b + j * shape.k + steps.begin, line, steps.size());
    float* column = packed + (j - columns.begin);
    for (std::int64_t k = 0; k < steps.size(); ++k) column[k * kColumns] = line[k];
  }
}

template <typename In, typename Out>
void write_row(const float* sums, const In* bias, bool accumulate, Out* y, std::int64_t count) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    const float before = accumulate ? widen(y[j]) : bias ? widen(bias[j]) : 0.0f;
    y[j] = narrow<Out>(sums[j] + before);
  }
}

// Columns `columns` (at most kColumns) of rows `rows` of the product.
template <typename In, typename Out>
void multiply_panel(const MatmulShape& shape, const MatmulOperands& operands, Range rows, Range columns,
                    const Packed& packed) {
  const In* a = reinterpret_cast<const In*>(operands.a);
  const In* b = reinterpret_cast<const In*>(operands.b);
  const std::int64_t padded = whole_vectors(columns.size());
  for (std::int64_t k = 0; k < shape.k; k += kSteps) {
    const Range steps{k, std::min(shape.k, k + kSteps)};
    pack_b(shape, b, steps, columns, packed.b);
    for (std::int64_t i = rows.begin; i < rows.end; i += kRows) {
      const Range block{i, std::min(rows.end, i + kRows)};
      block_product(block.size(), padded, steps.size(), view_of_a(shape, a, block, steps, packed.a), packed.b, kColumns,
                    packed.c + (i - rows.begin) * kColumns, kColumns, k != 0);
    }
  }
  const In* bias = operands.bias ? reinterpret_cast<const In*>(operands.bias) + columns.begin : nullptr;
  Out* y = reinterpret_cast<Out*>(operands.y);
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    write_row(packed.c + (i - rows.begin) * kColumns, bias, shape.accumulate, y + i * shape.n + columns.begin,
              columns.size());
  }
}

template <typename In, typename Out>
void multiply_tile(const MatmulShape& shape, const MatmulOperands& operands, Range rows, Range columns,
                   const Packed& packed) {
  for (std::int64_t j = columns.begin; j < columns.end; j += kColumns) {
    multiply_panel<In, Out>(shape, operands, rows, {j, std::min(columns.end, j + kColumns)}, packed);
  }
}

using Multiply = void (*)(const MatmulShape&, const MatmulOperands&, Range, Range, const Packed&);

Multiply multiplier(const MatmulShape& shape) {
  const bool to_f32 = shape.output == DType::f32;
  if (shape.input == DType::f32) return multiply_tile<float, float>;
  if (shape.input == DType::bf16) return to_f32 ? multiply_tile<bf16, float> : multiply_tile<bf16, bf16>;
  return to_f32 ? multiply_tile<f16, float> : multiply_tile<f16, f16>;
}

}  // namespace

Bytes PackedProduct::workspace() const { return Packed(nullptr, tiles_.rows.size).bytes; }

void PackedProduct::run(std::int64_t tile, const MatmulOperands& operands, std::byte* workspace) const {
  const std::int64_t row = tile / tiles_.columns.count(), column = tile % tiles_.columns.count();
  const Range rows{tiles_.rows.begin(row), tiles_.rows.end(row)};
  const Range columns{tiles_.columns.begin(column), tiles_.columns.end(column)};
  const Packed packed(workspace, tiles_.rows.size);
  multiplier(shape_)(shape_, operands, rows, columns, packed);
}

}  // namespace l2l::device::kernels
