// Numbers of fewer than 32 bits, several to a word, in the order of memory: as samples bring them.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "core/dtype.h"

namespace l2l {

// What a word of 32 bits holds: one element, or several of such a type.
enum class WordElement : std::uint8_t { whole, u8, f16, bf16 };

constexpr std::int64_t elements_in_word(WordElement type) {
  return type == WordElement::whole ? 1 : type == WordElement::u8 ? 4 : 2;
}

// The last of them need not be full.
constexpr std::int64_t words_for(WordElement type, std::int64_t elements) {
  return (elements + elements_in_word(type) - 1) / elements_in_word(type);
}

// Element `index` of `words`; of whole ones a float.
inline float element_of(WordElement type, std::span<const std::int32_t> words, std::size_t index) {
  const auto read = [&]<typename Element>(Element element) {
    std::memcpy(&element, reinterpret_cast<const std::byte*>(words.data()) + index * sizeof element, sizeof element);
    return element;
  };
  if (type == WordElement::u8) return read(std::uint8_t{});
  if (type == WordElement::f16) return to_float(read(f16{}));
  if (type == WordElement::bf16) return to_float(read(bf16{}));
  return read(float{});
}

}  // namespace l2l
