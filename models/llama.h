// Llama (Touvron et al., 2023) and the families that vary it: rotary positions, pre-norm blocks with RMS norms, SwiGLU,
// grouped-query causal attention, and a table of the head's own unless it is tied. Mistral has layers that slide, Qwen2
// biases of queries, keys and values, Qwen3 norms of queries and keys. Names and layouts of parameters are those of the
// Hugging Face files (LlamaForCausalLM).
#pragma once

#include "models/model.h"
#include "models/shape.h"

namespace l2l::models {

// shape.dropout is not used.
Model make_llama(const TransformerShape& shape);

}  // namespace l2l::models
