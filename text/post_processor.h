// Post-processors of tokenizer.json: the special tokens around a text, and around two that belong together.
#pragma once

#include <vector>

#include "text/json_reader.h"
#include "text/vocabulary.h"

namespace l2l::text {

struct SurroundingTokens {
  // A part of a pair: one of its texts (0 or 1), or a special token.
  struct Part {
    int text = -1;
    TokenId token = -1;
    std::int32_t type = 0;  // token type
  };

  std::vector<TokenId> before = {}, behind = {};                   // of a single text
  std::vector<Part> pair = {{.text = 0}, {.text = 1, .type = 1}};  // in their order
};

// Throws BadInput naming file and field for what is not built.
SurroundingTokens read_post_processor(const JsonReader& json);

}  // namespace l2l::text
