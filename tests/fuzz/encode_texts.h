// What a tokenizer must be able to do once its file was not refused.
#pragma once

#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace l2l::fuzz {

// Encodes a few texts, and decodes what it made; traps on a token that is not in the vocabulary. Throws BadInput.
inline void encode_texts(const text::Tokenizer& tokenizer) {
  constexpr const char* kTexts[] = {"", "Hello, world!", " 12  \n\tx\xc3\xa9\xe4\xb8\x96\xf0\x9f\x99\x82", "\xff\xfe"};
  const auto encoder = tokenizer.make_encoder();
  for (const char* const text : kTexts) {
    std::vector<std::int32_t> ids;
    encoder->encode(text, /*special=*/true, ids);
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= tokenizer.vocabulary()) __builtin_trap();
    }
    static_cast<void>(tokenizer.decode(ids, /*special=*/true));
  }
}

}  // namespace l2l::fuzz
