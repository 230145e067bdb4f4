// Philox words in bulk, for dropout (common/dropout.h).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "device/kernels/common/dropout.h"
#include "device/kernels/lanes.h"

namespace l2l::device::kernels {

static_assert(std::endian::native == std::endian::little,
              "pairs of words are stored as 64-bit values, and bytes taken from words");

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

// Size of the `words` that with_draws() needs for `count` elements.
constexpr std::int64_t random_words_room(std::int64_t count) { return count + 4 * kGroupBlocks + 4; }

// The words of blocks [begin, begin + count), and some behind them.
inline void random_blocks(const RngKey& key, std::uint32_t begin, std::int64_t count, std::uint32_t* words) {
  std::int64_t block = 0;
  for (; count - block > 16; block += 32) {
    random_group<32>(key, begin + static_cast<std::uint32_t>(block), words + 4 * block);
  }
  if (count - block > 8) {
    random_group<16>(key, begin + static_cast<std::uint32_t>(block), words + 4 * block);
  } else if (count - block > 0) {
    random_group<8>(key, begin + static_cast<std::uint32_t>(block), words + 4 * block);
  }
}

// Draws what decides elements [first, first + count) of `mask` into `words`, and calls take(drawn, threshold): element
// first + i is kept if drawn[i] >= threshold. Both are bytes or words.
template <typename Take>
void with_draws(const DropoutMask& mask, std::int64_t first, std::int64_t count, std::uint32_t* words,
                const Take& take) {
  const std::int64_t per_block = mask.per_block(), skipped = first % per_block;
  random_blocks(mask.key, static_cast<std::uint32_t>(first / per_block), (skipped + count + per_block - 1) / per_block,
                words);
  if (mask.bytes) {
    take(reinterpret_cast<const std::uint8_t*>(words) + skipped, static_cast<std::uint8_t>(mask.threshold));
  } else {
    take(static_cast<const std::uint32_t*>(words) + skipped, mask.threshold);
  }
}

}  // namespace l2l::device::kernels
