// Philox words in bulk, for dropout (common/dropout.h).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "device/kernels/common/dropout.h"
#include "device/kernels/lanes.h"

namespace l2l::device::kernels {

static_assert(std::endian::native == std::endian::little, "pairs of words are stored as 64-bit values");

// 32-bit counters in 64-bit lanes, where their products fit.
typedef std::uint64_t CounterVector __attribute__((vector_size(kVectorBytes)));

// Words of Blocks blocks from `first_block`: the rounds of core/philox.h on several blocks at once.
template <int Blocks>
void random_group(const RngKey& key, std::uint32_t first_block, std::uint32_t* words) {
  constexpr std::uint64_t kMultiply0 = 0xD2511F53u, kMultiply1 = 0xCD9E8D57u, kLow = 0xFFFFFFFFu;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  constexpr int kCounters = kVectorBytes / 8, kVectors = Blocks / kCounters;
  CounterVector lanes;
  for (int lane = 0; lane < kCounters; ++lane) lanes[lane] = static_cast<std::uint64_t>(lane);
  CounterVector c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    c0[v] = (lanes + (first_block + static_cast<std::uint32_t>(v * kCounters))) & kLow;
    c1[v] = CounterVector{} + ((key.microbatch << 8) | key.op);
    c2[v] = CounterVector{} + key.layer;
    c3[v] = CounterVector{} + key.step;
  }
  std::uint32_t k0 = static_cast<std::uint32_t>(key.seed), k1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const CounterVector product0 = kMultiply0 * c0[v], product1 = kMultiply1 * c2[v];
      c0[v] = (product1 >> 32) ^ c1[v] ^ k0;
      c1[v] = product1 & kLow;
      c2[v] = (product0 >> 32) ^ c3[v] ^ k1;
      c3[v] = product0 & kLow;
    }
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    const CounterVector low = c0[v] | (c1[v] << 32), high = c2[v] | (c3[v] << 32);
    for (int lane = 0; lane < kCounters; ++lane) {
      const std::uint64_t pair[2] = {low[lane], high[lane]};
      std::memcpy(words + 4 * (v * kCounters + lane), pair, sizeof pair);
    }
  }
}

inline constexpr std::int64_t kGroupBlocks = 32;

// Size of the `words` that random_words() needs for `count` elements.
constexpr std::int64_t random_words_room(std::int64_t count) { return count + 4 * kGroupBlocks + 4; }

// Fills `words`; returns where the words of elements [first, first + count) begin in it.
inline const std::uint32_t* random_words(const RngKey& key, std::int64_t first, std::int64_t count,
                                         std::uint32_t* words) {
  const std::uint32_t begin = static_cast<std::uint32_t>(first / 4);
  const std::int64_t blocks = (first % 4 + count + 3) / 4;
  std::int64_t block = 0;
  for (; blocks - block > 16; block += 32) {
    random_group<32>(key, begin + static_cast<std::uint32_t>(block), words + 4 * block);
  }
  if (blocks - block > 8) {
    random_group<16>(key, begin + static_cast<std::uint32_t>(block), words + 4 * block);
  } else if (blocks - block > 0) {
    random_group<8>(key, begin + static_cast<std::uint32_t>(block), words + 4 * block);
  }
  return words + first % 4;
}

}  // namespace l2l::device::kernels
