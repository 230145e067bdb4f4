// A streaming 64-bit hash (XXH64 by Y. Collet, seed 0) for weights_hash and file checksums. Not cryptographic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH64_state_s;

namespace l2l {

// Thread-bound. The value depends on the bytes alone, not on how they are cut into calls of update().
class Hash64 {
 public:
  Hash64();  // throws std::bad_alloc
  void update(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  struct Free {
    void operator()(XXH64_state_s* state) const;
  };
  std::unique_ptr<XXH64_state_s, Free> state_;
};

std::uint64_t hash_of(std::string_view text);
// Sixteen lower-case hexadecimal digits.
std::string to_hex(std::uint64_t value);

}  // namespace l2l
