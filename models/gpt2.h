// GPT-2 (Radford et al., 2019): learned positions, pre-norm blocks, GELU (tanh), causal attention, tied table. Names
// and layouts of parameters are those of the Hugging Face files.
#pragma once

#include "models/model.h"
#include "models/shape.h"

namespace l2l::models {

Model make_gpt2(const TransformerShape& shape);

}  // namespace l2l::models
