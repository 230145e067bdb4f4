// The tokenizer that a tokenizer.json describes: added tokens, normalizer, pre-tokenizer, model, post-processor and
// decoder, in this order.
#pragma once

#include <memory>
#include <vector>

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_model.h"
#include "text/tokenizer.h"

namespace l2l::text {

struct PipelineParts {
  std::vector<AddedToken> added;
  std::unique_ptr<Normalizer> normalizer;       // may be null, as may the next one
  std::unique_ptr<PreTokenizer> pre_tokenizer;  // null: the whole text is one piece
  std::unique_ptr<TokenModel> model;
  SurroundingTokens surrounding;
  std::unique_ptr<Decoder> decoder;  // null: tokens with spaces between them
};
std::unique_ptr<Tokenizer> make_pipeline(PipelineParts parts);

// From the object of a tokenizer.json. Throws BadInput.
std::unique_ptr<Tokenizer> make_pipeline(const JsonReader& json);

}  // namespace l2l::text
