// Numbers of fewer than 32 bits, several to a word, in the order of memory: as samples bring them.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "core/dtype.h"

namespace l2l {

enum class Packed : std::uint8_t { no, u8, f16, bf16 };  // no: a word is one element

constexpr std::int64_t elements_of_word(Packed packed) {
  return packed == Packed::no ? 1 : packed == Packed::u8 ? 4 : 2;
}

// The last of them need not be full.
constexpr std::int64_t words_of(Packed packed, std::int64_t elements) {
  return (elements + elements_of_word(packed) - 1) / elements_of_word(packed);
}

// Element `index` of packed words.
inline float unpacked(Packed packed, std::span<const std::int32_t> words, std::size_t index) {
  const auto read = [&]<typename Element>(Element element) {
    std::memcpy(&element, reinterpret_cast<const std::byte*>(words.data()) + index * sizeof element, sizeof element);
    return element;
  };
  if (packed == Packed::u8) return read(std::uint8_t{});
  if (packed == Packed::f16) return to_float(read(f16{}));
  if (packed == Packed::bf16) return to_float(read(bf16{}));
  return read(float{});
}

}  // namespace l2l
