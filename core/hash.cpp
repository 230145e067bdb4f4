// XXH64, written from its specification (github.com/Cyan4973/xxHash, doc/xxhash_spec.md, version 0.1.1).
#include "core/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace l2l {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87u;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9u;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63u;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5u;
constexpr std::size_t kStripe = 32;

static_assert(std::endian::native == std::endian::little, "the hash reads words as they lie in memory");

template <typename Word>
std::uint64_t read(const std::byte* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t input) { return std::rotl(lane + input * kPrime2, 31) * kPrime1; }

std::uint64_t merge(std::uint64_t hash, std::uint64_t lane) { return (hash ^ round(0, lane)) * kPrime1 + kPrime4; }

void consume_stripe(std::uint64_t* lanes, const std::byte* stripe) {
  for (int lane = 0; lane < 4; ++lane) lanes[lane] = round(lanes[lane], read<std::uint64_t>(stripe + 8 * lane));
}

std::uint64_t converge(const std::uint64_t* lanes) {
  std::uint64_t hash =
      std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
  for (int lane = 0; lane < 4; ++lane) hash = merge(hash, lanes[lane]);
  return hash;
}

std::uint64_t consume_tail(std::uint64_t hash, const std::byte* tail, std::size_t bytes) {
  for (; bytes >= 8; tail += 8, bytes -= 8) {
    hash = std::rotl(hash ^ round(0, read<std::uint64_t>(tail)), 27) * kPrime1 + kPrime4;
  }
  for (; bytes >= 4; tail += 4, bytes -= 4) {
    hash = std::rotl(hash ^ (read<std::uint32_t>(tail) * kPrime1), 23) * kPrime2 + kPrime3;
  }
  for (; bytes > 0; ++tail, --bytes) hash = std::rotl(hash ^ (read<std::uint8_t>(tail) * kPrime5), 11) * kPrime1;
  return hash;
}

std::uint64_t avalanche(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

}  // namespace

void Hash64::update(std::span<const std::byte> bytes) {
  total_ += bytes.size();
  if (tail_bytes_ > 0) {
    const std::size_t taken = std::min(kStripe - tail_bytes_, bytes.size());
    std::copy_n(bytes.begin(), taken, tail_ + tail_bytes_);
    tail_bytes_ += taken;
    bytes = bytes.subspan(taken);
    if (tail_bytes_ < kStripe) return;
    consume_stripe(lanes_, tail_);
    tail_bytes_ = 0;
  }
  for (; bytes.size() >= kStripe; bytes = bytes.subspan(kStripe)) consume_stripe(lanes_, bytes.data());
  std::copy(bytes.begin(), bytes.end(), tail_);
  tail_bytes_ = bytes.size();
}

std::uint64_t Hash64::value() const {
  const std::uint64_t hash = total_ >= kStripe ? converge(lanes_) : kPrime5;  // the seed is 0
  return avalanche(consume_tail(hash + total_, tail_, tail_bytes_));
}

std::string to_hex(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t i = 0; i < 16; ++i, value >>= 4) text[15 - i] = "0123456789abcdef"[value & 15];
  return text;
}

}  // namespace l2l
