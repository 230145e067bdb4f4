// Cuts a matrix product into tiles, by its shape alone.
#pragma once

#include "device/kernels/common/partition.h"
#include "device/kernels/matmul.h"

namespace l2l::device::kernels {

// `most` at most, each of at least `smallest`.
inline std::int64_t pieces(std::int64_t total, std::int64_t smallest, std::int64_t most) {
  return std::clamp<std::int64_t>(total / smallest, 1, most);
}

// Nearly equal parts in multiples of 16.
inline Partition cut(std::int64_t total, std::int64_t count) {
  const std::int64_t size = (total + count - 1) / count;
  return {total, (size + 15) / 16 * 16};
}

// Measured with oneDNN 2.6 on Zen 5: tiles of 256 rows reach the speed of the whole product, tiles of 64 lose a tenth,
// tiles of 32 a quarter. Eight tiles keep up to eight workers busy. Rows only: oneDNN's fast bf16 product wants every
// operand dense, and a range of rows is.
inline Partition row_tiles(const MatmulShape& shape) {
  const std::int64_t few = shape.transpose_a ? 1 : pieces(shape.m, 32, 4);
  return cut(shape.m, std::max({few, pieces(shape.m, 64, 8), shape.m / 256}));
}

// Our own product of a transposed `a` wants few and large tiles: the longer side of y is cut.
struct TileGrid {
  Partition rows, columns;
  std::int64_t count() const { return rows.count() * columns.count(); }
};

inline TileGrid own_tiles(const MatmulShape& shape) {
  const Partition whole_rows{shape.m, shape.m}, whole_columns{shape.n, shape.n};
  if (!shape.transpose_a) return {row_tiles(shape), whole_columns};
  const bool tall = shape.m >= shape.n;
  const std::int64_t longer = tall ? shape.m : shape.n;
  const Partition cuts = cut(longer, std::max(pieces(longer, 96, 4), pieces(longer, 256, 8)));
  return tall ? TileGrid{cuts, whole_columns} : TileGrid{whole_rows, cuts};
}

}  // namespace l2l::device::kernels
