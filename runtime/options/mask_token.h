// The token that stands for masked ones.
#pragma once

#include "l2l/options.h"

namespace l2l::runtime {

// Sets data.mask_token, where it is -1 and the model learns to predict masked tokens, to the mask token of the
// tokenizer: the mask_token of tokenizer_config.json beside its file, or else "[MASK]" or "<mask>". Without data, with
// data.tokenizer = "bytes", and where the tokenizer has no such token but the model's last one is free, -1 remains,
// which is that last one. Throws BadInput where the tokenizer cannot be opened, or the last token is one of its own.
void set_mask_token(Options& options);

}  // namespace l2l::runtime
