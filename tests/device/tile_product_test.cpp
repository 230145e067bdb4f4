// Products by tile registers, and the layouts of their operands.
#include "device/kernels/tile_product.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "core/philox.h"

namespace l2l::device::kernels {
namespace {

std::vector<bf16> numbers(std::int64_t count, std::uint32_t op) {
  std::vector<bf16> result;
  for (std::int64_t i = 0; i < count; ++i) {
    result.push_back(to_bf16(to_uniform(philox({.seed = 5, .op = op}, static_cast<std::uint32_t>(i))[0]) - 0.5f));
  }
  return result;
}

TEST(TileProduct, PairsRows) {
  const std::vector<bf16> rows = numbers(4 * 7, 1);
  std::vector<float> floats;
  for (const bf16 each : rows) floats.push_back(to_float(each));
  std::vector<Bf16Pair> pairs(2 * 9), of_floats(2 * 9);
  pair_rows(4, 5, rows.data(), 7, pairs.data(), 9);
  pair_rows(4, 5, floats.data(), 7, of_floats.data(), 9);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 9; ++j) {
      const std::uint32_t low = rows[2 * i * 7 + j % 7].bits, high = rows[(2 * i + 1) * 7 + j % 7].bits;
      EXPECT_EQ(pairs[9 * i + j], j < 5 ? low | high << 16 : 0) << i << ", " << j;
      EXPECT_EQ(of_floats[9 * i + j], pairs[9 * i + j]) << i << ", " << j;
    }
  }
}

TEST(TileProduct, TransposesWords) {
  constexpr std::size_t kRows = 32, kColumns = 48, kFrom = 50, kTo = 33;
  std::vector<std::uint32_t> source(kRows * kFrom), destination(kColumns * kTo);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint32_t>(i * 2654435761u);
  transpose(kRows, kColumns, source.data(), kFrom, destination.data(), kTo);
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kColumns; ++j) EXPECT_EQ(destination[j * kTo + i], source[i * kFrom + j]);
  }
}

// c, or c + a b, against sums in double; what lies beside c stays. Tiles are set up.
void compare(std::int64_t rows, std::int64_t columns, std::int64_t steps, bool accumulate) {
  const std::int64_t a_row = steps + 8, b_row = columns + 3, c_row = columns + 5;
  const std::vector<bf16> a = numbers(rows * a_row, 2), b = numbers(steps * b_row, 3);
  std::vector<Bf16Pair> pairs(static_cast<std::size_t>(steps / 2 * b_row));
  pair_rows(steps, columns, b.data(), b_row, pairs.data(), b_row);
  std::vector<float> c(static_cast<std::size_t>(rows * c_row), 0.25f);
  tile_product(rows, columns, steps, a.data(), a_row, pairs.data(), b_row, c.data(), c_row, accumulate);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < c_row; ++j) {
      double expected = accumulate || j >= columns ? 0.25 : 0;
      for (std::int64_t k = 0; k < steps && j < columns; ++k) {
        expected += static_cast<double>(to_float(a[static_cast<std::size_t>(i * a_row + k)])) *
                    static_cast<double>(to_float(b[static_cast<std::size_t>(k * b_row + j)]));
      }
      ASSERT_NEAR(c[static_cast<std::size_t>(i * c_row + j)], expected, 1e-5) << i << ", " << j;
    }
  }
}

TEST(TileProduct, MultipliesTilesOfAnyNumber) {
  if (!has_tiles()) GTEST_SKIP() << "this processor has no tile registers";
  const TileSetup setup;
  for (const std::int64_t rows : {16, 32, 48}) {
    for (const std::int64_t columns : {16, 32, 80}) {
      for (const std::int64_t steps : {32, 96}) {
        for (const bool accumulate : {false, true}) compare(rows, columns, steps, accumulate);
      }
    }
  }
}

#if defined(__x86_64__)
using Config = std::array<std::uint8_t, 64>;  // as STTILECFG writes it

__attribute__((target("amx-tile"))) void store(Config& config) { asm volatile("sttilecfg %0" : "=m"(config)); }
__attribute__((target("amx-tile"))) void load(const Config& config) { asm volatile("ldtilecfg %0" : : "m"(config)); }

// Whoever set tiles up before, oneDNN say, finds them as they were; where nobody did, they are set up no more.
TEST(TileProduct, ASetupIsUndone) {
  if (!has_tiles()) GTEST_SKIP() << "this processor has no tile registers";
  const Config none{};
  Config of_others{1}, found;
  of_others[16] = 32;  // bytes of a row of tile 0
  of_others[48] = 8;   // its rows
  load(of_others);
  {
    const TileSetup setup;
    store(found);
    EXPECT_NE(found, of_others);
    { const TileSetup inner; }
    compare(32, 16, 32, true);
  }
  store(found);
  EXPECT_EQ(found, of_others);
  asm volatile("tilerelease");
  { const TileSetup setup; }
  store(found);
  EXPECT_EQ(found, none);
}
#endif

}  // namespace
}  // namespace l2l::device::kernels
