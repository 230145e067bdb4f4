// Llama (Touvron et al., 2023): rotary positions, pre-norm blocks with RMS norms, SwiGLU, grouped-query causal
// attention, no biases, and a table of the head's own unless it is tied. Names and layouts of parameters are those of
// the Hugging Face files (LlamaForCausalLM).
#pragma once

#include "models/model.h"
#include "models/shape.h"

namespace l2l::models {

// shape.dropout is not used.
Model make_llama(const TransformerShape& shape);

}  // namespace l2l::models
