// A streaming 64-bit hash (XXH64 by Y. Collet, seed 0) for weights_hash and file checksums. Not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace l2l {

// Thread-bound. The value depends on the bytes only, not on how they are cut into calls of update().
class Hash64 {
 public:
  void update(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  std::uint64_t lanes_[4] = {0x60EA27EEADC0B5D6u, 0xC2B2AE3D27D4EB4Fu, 0, 0x61C8864E7A143579u};
  std::byte tail_[32] = {};
  std::size_t tail_bytes_ = 0;
  std::uint64_t total_ = 0;
};

// Sixteen lower-case hexadecimal digits.
std::string to_hex(std::uint64_t value);

}  // namespace l2l
