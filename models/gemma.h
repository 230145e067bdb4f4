// Gemma 2 and Gemma 3 (Gemma team, 2024 and 2025), text only: as Llama, but with RMS norms by 1 + weight before and
// after each branch, embeddings times sqrt(hidden), GELU (tanh) gates, caps of scores and logits, and layers that slide
// in turn with others. Gemma 3 also norms queries and keys. Names and layouts of parameters are those of the Hugging
// Face files (Gemma2ForCausalLM, Gemma3ForCausalLM).
#pragma once

#include "models/model.h"
#include "models/shape.h"

namespace l2l::models {

// shape.dropout is not used.
Model make_gemma(const TransformerShape& shape);

}  // namespace l2l::models
