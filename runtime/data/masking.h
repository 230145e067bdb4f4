// Masked-language modelling (Devlin et al., "BERT", 2019): some tokens are chosen to be predicted; of these, 80% are
// replaced by the mask token, 10% by a random other token, and 10% stay.
#pragma once

#include <cstdint>
#include <span>

#include "core/philox.h"

namespace l2l::runtime {

struct Masking {
  double share = 0;  // of a sequence's tokens, chosen to be predicted; 0: the model predicts each next token instead
  std::int32_t mask_token = 0;
  std::int64_t vocabulary = 0;  // replacements lie below it
};

// How many of `count` tokens are chosen: the share, rounded to nearest, at least one.
std::int64_t masked_tokens(const Masking& masking, std::int64_t count);

// Chooses masked_tokens() of `tokens` (every set of that size is equally likely), copies them to `targets` and masks
// them; the other targets become -1. `targets` is as long as `tokens`. A pure function of `key` and the tokens.
void mask_tokens(const Masking& masking, const RngKey& key, std::span<std::int32_t> tokens,
                 std::span<std::int32_t> targets);

}  // namespace l2l::runtime
