// Products of small bf16 matrices by the tile registers of a processor (Intel AMX), sums in fp32; and the two layouts
// of operands that they read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "device/kernels/lanes.h"

namespace l2l::device::kernels {

// Rows and columns of a product come in whole tiles, and so do its steps.
inline constexpr std::int64_t kTileRows = 16, kTileSteps = 32;

constexpr std::int64_t whole_tile_steps(std::int64_t count) {
  return (count + kTileSteps - 1) / kTileSteps * kTileSteps;
}

// Whether this processor has tile registers and the system lets the process use them. Not where the environment
// variable L2L_INSTRUCTION_SET names a set (optimizers/kernels.h): none of these has tiles.
bool has_tiles();

// While it lives, this thread may call tile_product(). What its tile registers were set up for is restored.
class TileSetup {
 public:
  TileSetup();
  ~TileSetup();
  TileSetup(const TileSetup&) = delete;
  TileSetup& operator=(const TileSetup&) = delete;

 private:
  alignas(64) std::byte before_[64];
};

// Two neighbours in a matrix, the first in the low half.
using Bf16Pair = std::uint32_t;

// c[rows, columns] = a[rows, steps] b[steps, columns], or += with `accumulate`. a is row-major; element (k, j) of b is
// half k % 2 of pair [k / 2][j]. Strides are in elements of each. `rows` and `columns` are multiples of kTileRows,
// `steps` of kTileSteps. Subnormal numbers count as zero.
void tile_product(std::int64_t rows, std::int64_t columns, std::int64_t steps, const bf16* a, std::ptrdiff_t a_row,
                  const Bf16Pair* b, std::ptrdiff_t b_row, float* c, std::ptrdiff_t c_row, bool accumulate);

// Pairs rows 2 i and 2 i + 1 of `source` into row i: the left factor's transpose becomes the right factor. `rows` is
// even; T is bf16, or float, which is rounded first.
template <typename T>
void pair_rows(std::int64_t rows, std::int64_t columns, const T* source, std::ptrdiff_t source_row, Bf16Pair* pairs,
               std::ptrdiff_t pairs_row);

}  // namespace l2l::device::kernels
