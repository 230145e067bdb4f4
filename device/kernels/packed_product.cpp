// Blocked and packed like Goto's GEMM: panels of b stay in cache while rows of a pass; sums are fp32 in ascending order
// of k. Reference: K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", TOMS 2008.
#include "device/kernels/packed_product.h"

#include <algorithm>
#include <type_traits>

#include "device/kernels/block_product.h"
#include "device/kernels/common/operands.h"
#include "device/kernels/convert.h"
#include "device/kernels/lanes.h"

namespace l2l::device::kernels {
namespace {

// A strip of b (32 KiB) stays in L1, a block of a (48 KiB) and a panel of b (256 KiB) in L2. Sums of kHeight rows wait
// for further steps in up to 576 KiB. Measured on an Emerald Rapids, AVX-512 and AVX2.
constexpr std::int64_t kRows = 96, kColumns = 512, kStrip = 64, kSteps = 128, kHeight = 288;
constexpr std::int64_t kNear = 256;  // elements between steps of a transposed a, which is then not copied

// Rows of a transposed fp32 matrix that lie far apart share few places of a cache; others are read where they are.
bool copies_a(const MatmulShape& shape) { return shape.input != DType::f32 || (shape.transpose_a && shape.m > kNear); }

// fp32 buffers of one slot, no larger than a tile of `rows` and `columns` needs.
struct Packed {
  float* a;  // [kRows][kSteps] or its transpose
  float* b;  // [strips][kSteps][kStrip]
  float* c;  // [rows][strips][kStrip]
  std::int64_t c_row;
  Bytes bytes;

  Packed(std::byte* base, const MatmulShape& shape, std::int64_t rows, std::int64_t columns) {
    const std::int64_t strips = (std::min(columns, kColumns) + kStrip - 1) / kStrip;
    c_row = strips * kStrip;
    WorkspaceCutter cutter(base);
    a = cutter.take<float>(copies_a(shape) ? kRows * kSteps : 0);
    b = cutter.take<float>(kSteps * c_row);
    c = cutter.take<float>(std::min(rows, kHeight) * c_row);
    bytes = cutter.used();
  }
};

struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// Rows and steps of a as block_product reads them, in their order: where they lie, or copied as fp32 into `packed`.
BlockView view_of_a(const MatmulShape& shape, const float* a, Range rows, Range steps, float*) {
  return {a + rows.begin * shape.k + steps.begin, shape.k, 1};
}

template <typename T>
BlockView view_of_a(const MatmulShape& shape, const T* a, Range rows, Range steps, float* packed) {
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    widen_row(a + i * shape.k + steps.begin, packed + (i - rows.begin) * kSteps, steps.size());
  }
  return {packed, kSteps, 1};
}

template <typename T>
BlockView view_of_transposed_a(const MatmulShape& shape, const T* a, Range rows, Range steps, float* packed) {
  if constexpr (std::is_same_v<T, float>) {
    if (!copies_a(shape)) return {a + steps.begin * shape.m + rows.begin, 1, shape.m};
  }
  for (std::int64_t k = steps.begin; k < steps.end; ++k) {
    widen_row(a + k * shape.m + rows.begin, packed + (k - steps.begin) * kRows, rows.size());
  }
  return {packed, 1, kRows};
}

// Steps and columns (at most kStrip) of b, row-major and padded with zeros to kStrip.
template <typename T>
void pack_b(const MatmulShape& shape, const T* b, Range steps, Range columns, float* packed) {
  if (columns.size() < kStrip) std::fill(packed, packed + kSteps * kStrip, 0.0f);
  if (!shape.transpose_b) {
    for (std::int64_t k = steps.begin; k < steps.end; ++k) {
      widen_row(b + k * shape.n + columns.begin, packed + (k - steps.begin) * kStrip, columns.size());
    }
    return;
  }
  for (std::int64_t j = columns.begin; j < columns.end; ++j) {
    float line[kSteps];
    widen_row(b + j * shape.k + steps.begin, line, steps.size());
    float* column = packed + (j - columns.begin);
    for (std::int64_t k = 0; k < steps.size(); ++k) column[k * kStrip] = line[k];
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

// Calls visit(range) for ranges of at most `size`.
template <typename Visit>
void in_parts(Range whole, std::int64_t size, Visit visit) {
  for (std::int64_t i = whole.begin; i < whole.end; i += size) visit(Range{i, std::min(whole.end, i + size)});
}

// Columns `columns` (at most kColumns) of rows `rows` (at most kHeight) of the product.
template <typename In, typename Out>
void multiply_panel(const MatmulShape& shape, const MatmulOperands& operands, Range rows, Range columns,
                    const Packed& packed) {
  const In* a = reinterpret_cast<const In*>(operands.a);
  const In* b = reinterpret_cast<const In*>(operands.b);
  in_parts({0, shape.k}, kSteps, [&](Range steps) {
    in_parts(columns, kStrip,
             [&](Range strip) { pack_b(shape, b, steps, strip, packed.b + (strip.begin - columns.begin) * kSteps); });
    in_parts(rows, kRows, [&](Range block) {
      const BlockView view = shape.transpose_a ? view_of_transposed_a(shape, a, block, steps, packed.a)
                                               : view_of_a(shape, a, block, steps, packed.a);
      float* const sums = packed.c + (block.begin - rows.begin) * packed.c_row;
      in_parts(columns, kStrip, [&](Range strip) {
        const std::int64_t column = strip.begin - columns.begin;
        block_product(block.size(), whole_vectors(strip.size()), steps.size(), view, packed.b + column * kSteps, kStrip,
                      sums + column, packed.c_row, steps.begin != 0);
      });
    });
  });
  const In* bias = operands.bias ? reinterpret_cast<const In*>(operands.bias) + columns.begin : nullptr;
  Out* y = reinterpret_cast<Out*>(operands.y);
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    write_row(packed.c + (i - rows.begin) * packed.c_row, bias, shape.accumulate, y + i * shape.n + columns.begin,
              columns.size());
  }
}

template <typename In, typename Out>
void multiply_tile(const MatmulShape& shape, const MatmulOperands& operands, Range rows, Range columns,
                   const Packed& packed) {
  in_parts(rows, kHeight, [&](Range part) {
    in_parts(columns, kColumns, [&](Range panel) { multiply_panel<In, Out>(shape, operands, part, panel, packed); });
  });
}

using Multiply = void (*)(const MatmulShape&, const MatmulOperands&, Range, Range, const Packed&);

Multiply multiplier(const MatmulShape& shape) {
  const bool to_f32 = shape.output == DType::f32;
  if (shape.input == DType::f32) return multiply_tile<float, float>;
  if (shape.input == DType::bf16) return to_f32 ? multiply_tile<bf16, float> : multiply_tile<bf16, bf16>;
  return to_f32 ? multiply_tile<f16, float> : multiply_tile<f16, f16>;
}

}  // namespace

Bytes PackedProduct::workspace() const { return Packed(nullptr, shape_, tiles_.rows.size, tiles_.columns.size).bytes; }

void PackedProduct::run(std::int64_t tile, const MatmulOperands& operands, std::byte* workspace) const {
  const std::int64_t row = tile / tiles_.columns.count(), column = tile % tiles_.columns.count();
  const Range rows{tiles_.rows.begin(row), tiles_.rows.end(row)};
  const Range columns{tiles_.columns.begin(column), tiles_.columns.end(column)};
  const Packed packed(workspace, shape_, tiles_.rows.size, tiles_.columns.size);
  multiplier(shape_)(shape_, operands, rows, columns, packed);
}

}  // namespace l2l::device::kernels
