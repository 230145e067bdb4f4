// The sizes of a transformer. Each family reads the fields that it has a use for.
#pragma once

#include <cstdint>

#include "core/bytes.h"
#include "core/dtype.h"

namespace l2l::models {

// Whether blocks are reversible: two residual streams, to each of which a branch of the other is added (Gomez et al.,
// 2017; Kitaev et al., 2020), in fp32 or in fixed point.
enum class Reversible : std::uint8_t { no, floating, fixed };

// The type of what lies between layers.
DType stream_dtype(Reversible reversible, DType compute);

struct TransformerShape {
  std::int64_t layers, hidden, heads, intermediate, vocabulary, sequence;
  std::int64_t micro_batch;  // sequences per microbatch
  float dropout = 0;         // of embedding, attention probabilities and residual branches
  DType compute = DType::f32;
  std::int64_t vocabulary_chunk = 0;  // rows of the table that travel at once; 0: as many as fit in a block's slot
  std::int64_t kv_heads = 0;          // heads of keys and values, a divisor of heads; 0: as many as heads
  float rope_theta = 10000;
  float norm_epsilon = 0;  // 0: the family's own
  bool tie_embeddings = true;
  bool core_attention = false;  // attention in separate ops (GraphBuilder::core_attention) instead of one
  Reversible reversible = Reversible::no;
  bool keeps_inputs = false;  // reversible blocks: stash inputs as other blocks do, instead of rebuilding them

  std::int64_t rows() const { return micro_batch * sequence; }  // of an activation: tokens of a microbatch
  std::int64_t head_dim() const { return hidden / heads; }
  float epsilon_or(float own) const { return norm_epsilon > 0 ? norm_epsilon : own; }

  // Between layers lie one activation [rows, hidden], or the two streams of a reversible model, one behind the other.
  bool streams() const { return reversible != Reversible::no; }
  DType stream_type() const { return stream_dtype(reversible, compute); }
  Bytes second_stream() const { return static_cast<Bytes>(rows() * hidden) * size_of(stream_type()); }
};

}  // namespace l2l::models
