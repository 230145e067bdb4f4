// What lists of tokens need of a vocab.json, besides its tokens.
#pragma once

#include <vector>

#include "text/added_tokens.h"
#include "text/tokenizer_config.h"

namespace l2l::text {

// The tokens that are found in a text before it is cut. Throws BadInput, also where the tokenizer is of a class that
// does not cut texts as GPT-2's or RoBERTa's do.
std::vector<AddedToken> tokens_beside(const Vocabulary& vocabulary, const TokenizerConfig& config);

}  // namespace l2l::text
