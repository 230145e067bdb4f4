// Post-processors of tokenizer.json: the special tokens around a text.
#pragma once

#include <vector>

#include "text/json_reader.h"
#include "text/vocabulary.h"

namespace l2l::text {

struct SurroundingTokens {
  std::vector<TokenId> before, behind;  // of a single text
};

// Throws BadInput naming file and field for what is not built.
SurroundingTokens read_post_processor(const JsonReader& json);

}  // namespace l2l::text
