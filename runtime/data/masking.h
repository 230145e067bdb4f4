// What a masked-language model is trained on (Devlin et al., "BERT", 2019): of the tokens chosen to be predicted, 80%
// are replaced by the mask token, 10% by any other token, and 10% stay.
#pragma once

#include <cstdint>
#include <span>

#include "core/philox.h"

namespace l2l::runtime {

struct Masking {
  double share = 0;  // of the tokens of a sequence; 0: none, the model predicts each token from those before it
  std::int32_t mask_token = 0;
  std::int64_t vocabulary = 0;  // replacements lie below it
};

// Tokens chosen among `count`: the share, rounded to nearest, but at least one.
std::int64_t masked_tokens(const Masking& masking, std::int64_t count);

// Chooses masked_tokens() of `tokens`, every set of that size as likely as any other, moves them to `targets` and
// replaces them; other targets are -1. A pure function of `key` and the tokens.
void mask_tokens(const Masking& masking, const RngKey& key, std::span<std::int32_t> tokens,
                 std::span<std::int32_t> targets);

}  // namespace l2l::runtime
