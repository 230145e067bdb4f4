#include "core/hash.h"

#include <xxhash.h>

#include <new>

namespace l2l {

Hash64::Hash64() : state_(XXH64_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH64_reset(state_.get(), 0);
}

void Hash64::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH64_update(state_.get(), bytes.data(), bytes.size());
}

std::uint64_t Hash64::value() const { return XXH64_digest(state_.get()); }

void Hash64::Free::operator()(XXH64_state_s* state) const { XXH64_freeState(state); }

std::uint64_t hash_of(std::string_view text) {
  Hash64 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.value();
}

std::string to_hex(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t i = 0; i < 16; ++i, value >>= 4) text[15 - i] = "0123456789abcdef"[value & 15];
  return text;
}

}  // namespace l2l
