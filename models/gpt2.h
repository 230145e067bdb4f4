// GPT-2 (Radford et al., 2019): learned positions, pre-norm blocks, GELU (tanh), causal attention, tied table. Names
// and layouts of parameters are those of the Hugging Face files.
#pragma once

#include "models/model.h"

namespace l2l::models {

struct Gpt2Shape {
  std::int64_t layers, hidden, heads, intermediate, vocabulary, sequence;
  std::int64_t micro_batch;  // sequences per microbatch
  float dropout = 0;         // embedding, attention probabilities, residual branches
  DType compute = DType::f32;
  std::int64_t vocabulary_chunk = 0;  // rows of the table that travel at once; 0: as many as fit in a block's slot
};

Model make_gpt2(const Gpt2Shape& shape);

}  // namespace l2l::models
