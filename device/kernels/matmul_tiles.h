// How a matrix product is cut into tiles: a grid chosen by shape alone.
#pragma once

#include "device/kernels/matmul.h"
#include "device/kernels/partition.h"

namespace l2l::device::kernels {

struct TileGrid {
  Partition rows, columns;

  std::int64_t count() const { return rows.count() * columns.count(); }
};

// `pieces` nearly equal parts in multiples of `unit`.
inline Partition cut(std::int64_t total, std::int64_t pieces, std::int64_t unit) {
  const std::int64_t size = (total + pieces - 1) / pieces;
  return {total, std::max<std::int64_t>(unit, (size + unit - 1) / unit * unit)};
}

// Measured with oneDNN 2.6 on Zen 5 (docs/benchmarks.md): tiles of 256 rows reach the speed of the whole product, tiles
// of 64 lose a tenth. Eight tiles keep up to eight workers busy; few rows are helped by cuts of the columns. The
// products of weight gradients, with a transposed, want few and large tiles: their longer side is cut.
inline TileGrid tile_grid(const MatmulShape& shape) {
  const auto pieces = [](std::int64_t total, std::int64_t smallest, std::int64_t most) {
    return std::clamp<std::int64_t>(total / smallest, 1, most);
  };
  if (shape.transpose_a) {
    const bool tall = shape.m >= shape.n;
    const std::int64_t longer = tall ? shape.m : shape.n;
    const Partition cuts = cut(longer, std::max(pieces(longer, 96, 4), pieces(longer, 256, 8)), 16);
    return tall ? TileGrid{cuts, {shape.n, shape.n}} : TileGrid{{shape.m, shape.m}, cuts};
  }
  const std::int64_t row_pieces = std::max(pieces(shape.m, 64, 8), shape.m / 256);
  const std::int64_t column_pieces = row_pieces >= 4 ? 1 : pieces(shape.n, 256, 16 / row_pieces);
  return {cut(shape.m, row_pieces, 16), column_pieces == 1 ? Partition{shape.n, shape.n} : cut(shape.n, column_pieces, 64)};
}

}  // namespace l2l::device::kernels
