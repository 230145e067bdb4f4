#include "runtime/data/permutation.h"

#include <algorithm>
#include <bit>

namespace l2l::runtime {

namespace {

constexpr std::uint32_t kDataLayer = 0xffffffffu;
constexpr std::uint32_t kRounds = 6;
constexpr int kLeastHalfBits = 3;  // fewer bits mix too little in kRounds

std::uint64_t encrypt(std::uint64_t value, int half_bits, std::uint64_t seed, std::uint64_t epoch) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits, right = value & mask;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const auto draw = static_cast<DataDraw>(static_cast<std::uint32_t>(DataDraw::round0) + round);
    const PhiloxBlock block = philox(data_key(seed, epoch, draw), static_cast<std::uint32_t>(right));
    const std::uint64_t mixed = left ^ (block[0] & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits) | right;
}

}  // namespace

RngKey data_key(std::uint64_t seed, std::uint64_t epoch, DataDraw draw) {
  constexpr std::uint64_t kMicrobatches = 1 << 24;  // RngKey::microbatch holds the upper bits of the epoch
  return {seed, static_cast<std::uint32_t>(epoch), kDataLayer,
          static_cast<std::uint32_t>((epoch >> 32) % kMicrobatches), static_cast<std::uint32_t>(draw)};
}

std::uint64_t permute(std::uint64_t index, std::uint64_t count, std::uint64_t seed, std::uint64_t epoch) {
  const int half_bits = std::max(kLeastHalfBits, static_cast<int>(std::bit_width(count - 1) + 1) / 2);
  std::uint64_t value = index;
  do {
    value = encrypt(value, half_bits, seed, epoch);
  } while (value >= count);
  return value;
}

}  // namespace l2l::runtime
