// What lists of tokens need of a vocab.json, besides its tokens.
#pragma once

#include <vector>

#include "text/added_tokens.h"
#include "text/post_processor.h"
#include "text/tokenizer_config.h"

namespace l2l::text {

// The tokens that are found in a text before it is cut. Throws BadInput, also where the tokenizer is of a class that
// does not cut texts as GPT-2's or RoBERTa's do.
std::vector<AddedToken> tokens_beside(const Vocabulary& vocabulary, const TokenizerConfig& config);
// What is put around a text: a GPT-2's config may say so, RoBERTa always does. `added`: tokens_beside(). Throws
// BadInput.
SurroundingTokens surrounding_of(const Vocabulary& vocabulary, const std::vector<AddedToken>& added,
                                 const TokenizerConfig& config);

}  // namespace l2l::text
