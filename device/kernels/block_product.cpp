#include "device/kernels/block_product.h"

#include "device/kernels/lanes.h"

namespace l2l::device::kernels {
namespace {

struct Block {
  std::int64_t steps;
  BlockView a;
  const float* b;
  std::ptrdiff_t b_row;
  float* c;
  std::ptrdiff_t c_row;
  bool accumulate;
};

// Rows x Vectors sums stay in registers over all steps.
template <int Rows, int Vectors>
void product_in_registers(const Block& block) {
  FloatVector sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      sum[i][j] = block.accumulate ? load_vector(block.c + i * block.c_row + j * kLanes) : FloatVector{};
    }
  }
  const float* a = block.a.data;
  const float* b = block.b;
  for (std::int64_t k = 0; k < block.steps; ++k, a += block.a.step, b += block.b_row) {
    FloatVector factor[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) factor[j] = load_vector(b + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const float scalar = a[i * block.a.row];
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) sum[i][j] += scalar * factor[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) store_vector(block.c + i * block.c_row + j * kLanes, sum[i][j]);
  }
}

template <int Rows, int Vectors>
void take_rows(Block& block, std::int64_t& rows) {
  for (; rows >= Rows; rows -= Rows) {
    product_in_registers<Rows, Vectors>(block);
    block.a.data += Rows * block.a.row;
    block.c += Rows * block.c_row;
  }
}

// As many rows at a time as the registers hold: 24 sums of 32 registers, 12 of 16.
template <int Vectors>
void column_panel(Block block, std::int64_t rows) {
  constexpr int kSums = kVectorRegisters == 32 ? 24 : 12;
  constexpr int kRows = kSums / Vectors < 12 ? kSums / Vectors : 12;
  take_rows<kRows, Vectors>(block, rows);
  if constexpr (kRows > 6) take_rows<6, Vectors>(block, rows);
  if constexpr (kRows > 3) take_rows<3, Vectors>(block, rows);
  take_rows<1, Vectors>(block, rows);
}

}  // namespace

void block_product(std::int64_t rows, std::int64_t columns, std::int64_t steps, BlockView a, const float* b,
                   std::ptrdiff_t b_row, float* c, std::ptrdiff_t c_row, bool accumulate) {
  constexpr std::int64_t kWide = kVectorRegisters == 32 ? 4 : 2;
  for (std::int64_t column = 0; column < columns;) {
    const Block block{steps, a, b + column, b_row, c + column, c_row, accumulate};
    const std::int64_t vectors = (columns - column) / kLanes;
    if (vectors >= kWide) {
      column_panel<kWide>(block, rows);
      column += kWide * kLanes;
    } else if (vectors >= 2) {
      column_panel<2>(block, rows);
      column += 2 * kLanes;
    } else {
      column_panel<1>(block, rows);
      column += kLanes;
    }
  }
}

}  // namespace l2l::device::kernels
