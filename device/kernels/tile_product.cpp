#include "device/kernels/tile_product.h"

#include <cstdlib>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace l2l::device::kernels {
namespace {

std::uint32_t bits_of(bf16 value) { return value.bits; }
std::uint32_t bits_of(float value) { return to_bf16(value).bits; }

}  // namespace

template <typename T>
void pair_rows(std::int64_t rows, std::int64_t columns, const T* source, std::ptrdiff_t source_row, Bf16Pair* pairs,
               std::ptrdiff_t pairs_row) {
  for (std::int64_t row = 0; row < rows; row += 2) {
    const T *low = source + row * source_row, *high = low + source_row;
    Bf16Pair* to = pairs + row / 2 * pairs_row;
#pragma omp simd
    for (std::int64_t j = 0; j < columns; ++j) to[j] = bits_of(low[j]) | bits_of(high[j]) << 16;
  }
}

template void pair_rows(std::int64_t, std::int64_t, const bf16*, std::ptrdiff_t, Bf16Pair*, std::ptrdiff_t);
template void pair_rows(std::int64_t, std::int64_t, const float*, std::ptrdiff_t, Bf16Pair*, std::ptrdiff_t);

#if defined(__x86_64__) && defined(__linux__)

namespace {

#define L2L_TILES __attribute__((target("amx-tile,amx-bf16")))

// As LDTILECFG reads it: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

bool ask_for_tiles() {
  const char* const named = std::getenv("L2L_INSTRUCTION_SET");
  if (named != nullptr && *named != '\0') return false;
  unsigned int a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned int kBf16 = 1u << 22, kTile = 1u << 24;
  if ((d & kBf16) == 0 || (d & kTile) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

L2L_TILES void set_up(std::byte* before) {
  static constexpr TileConfig kOwn;
  _tile_storeconfig(before);
  _tile_loadconfig(&kOwn);
}

L2L_TILES void restore(const std::byte* before) {
  if (before[0] == std::byte{0}) {  // no palette
    _tile_release();
  } else {
    _tile_loadconfig(before);
  }
}

// One block of c: kRows x kColumns tiles.
template <int kRows, int kColumns>
L2L_TILES void block(std::int64_t steps, const bf16* a, std::ptrdiff_t a_row, const Bf16Pair* b, std::ptrdiff_t b_row,
                     float* c, std::ptrdiff_t c_row, bool accumulate) {
  // Tiles 0 to 3 hold sums, 4 and 5 rows of a, 6 and 7 columns of b.
  const std::size_t a_bytes = static_cast<std::size_t>(a_row) * 2, b_bytes = static_cast<std::size_t>(b_row) * 4;
  const std::size_t c_bytes = static_cast<std::size_t>(c_row) * 4;
  float* const lower = c + kTileRows * c_row;
  if (accumulate) {
    _tile_loadd(0, c, c_bytes);
    if constexpr (kColumns > 1) _tile_loadd(1, c + kTileRows, c_bytes);
    if constexpr (kRows > 1) _tile_loadd(2, lower, c_bytes);
    if constexpr (kRows > 1 && kColumns > 1) _tile_loadd(3, lower + kTileRows, c_bytes);
  } else {
    _tile_zero(0);
    if constexpr (kColumns > 1) _tile_zero(1);
    if constexpr (kRows > 1) _tile_zero(2);
    if constexpr (kRows > 1 && kColumns > 1) _tile_zero(3);
  }
  for (std::int64_t k = 0; k < steps; k += kTileSteps) {
    const Bf16Pair* const right = b + k / 2 * b_row;
    _tile_loadd(4, a + k, a_bytes);
    _tile_loadd(6, right, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kRows > 1) {
      _tile_loadd(5, a + kTileRows * a_row + k, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kColumns > 1) {
      _tile_loadd(7, right + kTileRows, b_bytes);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (kRows > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, c_bytes);
  if constexpr (kColumns > 1) _tile_stored(1, c + kTileRows, c_bytes);
  if constexpr (kRows > 1) _tile_stored(2, lower, c_bytes);
  if constexpr (kRows > 1 && kColumns > 1) _tile_stored(3, lower + kTileRows, c_bytes);
}

template <int kRows>
void strip(std::int64_t columns, std::int64_t steps, const bf16* a, std::ptrdiff_t a_row, const Bf16Pair* b,
           std::ptrdiff_t b_row, float* c, std::ptrdiff_t c_row, bool accumulate) {
  std::int64_t j = 0;
  for (; j + 2 * kTileRows <= columns; j += 2 * kTileRows) {
    block<kRows, 2>(steps, a, a_row, b + j, b_row, c + j, c_row, accumulate);
  }
  if (j < columns) block<kRows, 1>(steps, a, a_row, b + j, b_row, c + j, c_row, accumulate);
}

}  // namespace

bool has_tiles() {
  static const bool has = ask_for_tiles();
  return has;
}

TileSetup::TileSetup() { set_up(before_); }
TileSetup::~TileSetup() { restore(before_); }

void tile_product(std::int64_t rows, std::int64_t columns, std::int64_t steps, const bf16* a, std::ptrdiff_t a_row,
                  const Bf16Pair* b, std::ptrdiff_t b_row, float* c, std::ptrdiff_t c_row, bool accumulate) {
  asm volatile("" ::: "memory");  // g++ does not know that loads of tiles read memory
  std::int64_t i = 0;
  for (; i + 2 * kTileRows <= rows; i += 2 * kTileRows) {
    strip<2>(columns, steps, a + i * a_row, a_row, b, b_row, c + i * c_row, c_row, accumulate);
  }
  if (i < rows) strip<1>(columns, steps, a + i * a_row, a_row, b, b_row, c + i * c_row, c_row, accumulate);
}

#else

bool has_tiles() { return false; }
TileSetup::TileSetup() = default;
TileSetup::~TileSetup() = default;
void tile_product(std::int64_t, std::int64_t, std::int64_t, const bf16*, std::ptrdiff_t, const Bf16Pair*,
                  std::ptrdiff_t, float*, std::ptrdiff_t, bool) {}

#endif

}  // namespace l2l::device::kernels
