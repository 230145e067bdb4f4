// The sizes of a transformer, whatever its family; what a family does not have is not read.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace l2l::models {

// Whether a model's blocks can be undone: two streams, each of which a branch of the other is added to (Gomez et al.,
// 2017; Kitaev et al., 2020), in fp32 or in fixed point.
enum class Reversible : std::uint8_t { no, floating, fixed };

// Of what lies between layers.
DType stream_dtype(Reversible reversible, DType compute);

struct TransformerShape {
  std::int64_t layers, hidden, heads, intermediate, vocabulary, sequence;
  std::int64_t micro_batch;  // sequences per microbatch
  float dropout = 0;         // embedding, attention probabilities, residual branches
  DType compute = DType::f32;
  std::int64_t vocabulary_chunk = 0;  // rows of the table that travel at once; 0: as many as fit in a block's slot
  std::int64_t kv_heads = 0;          // heads of keys and values, which divide heads; 0: as many
  float rope_theta = 10000;
  float norm_epsilon = 0;  // 0: the family's own
  bool tie_embeddings = true;
  bool core_attention = false;  // in separate ops (GraphBuilder::core_attention), not in one
  Reversible reversible = Reversible::no;
  bool keeps_inputs = false;  // reversible: the backward visit gets its input as any other block's does

  std::int64_t rows() const { return micro_batch * sequence; }
  std::int64_t head_dim() const { return hidden / heads; }
  float epsilon_or(float own) const { return norm_epsilon > 0 ? norm_epsilon : own; }
};

}  // namespace l2l::models
