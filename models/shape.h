// The sizes of a transformer. Each family reads the fields that it has a use for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/rotary.h"
#include "core/bytes.h"
#include "core/dtype.h"
#include "l2l/graph.h"

namespace l2l::models {

// Whether `pattern` (* and ?, as in file names) stands for a parameter of this name.
bool matches(const std::string& name, const std::string& pattern);

// Whether blocks are reversible: two residual streams, to each of which a branch of the other is added (Gomez et al.,
// 2017; Kitaev et al., 2020), in fp32 or in fixed point.
enum class Reversible : std::uint8_t { no, floating, fixed };

// The type of what lies between layers.
inline DType stream_dtype(Reversible reversible, DType compute) {
  if (reversible == Reversible::fixed) return DType::i32;
  return reversible == Reversible::floating ? DType::f32 : compute;
}

// What the head gives (ModelOptions::head).
enum class HeadKind : std::uint8_t { language, classification, regression, tokens, choice, custom };
HeadKind head_kind_of(std::string_view name);

// Of an MLP: the family's own, GELU by the error function or in its tanh form, or SiLU, which only gates have.
enum class Activation : std::uint8_t { own, gelu, gelu_tanh, silu };

// Low-rank adapters (Hu et al., 2021) of linear layers in blocks: y = W x + factor B A dropout(x), with A [rank, in]
// and B [out, rank], named as PEFT names them.
struct Lora {
  std::int64_t rank = 0;  // 0: there are none
  float alpha = 8;        // factor is alpha / rank; with rank stabilization (Kalajdzievski, 2023) alpha / sqrt(rank)
  float dropout = 0;
  bool rank_stabilized = false;
  std::vector<std::string> targets = {};  // modules whose name is, or ends in a dot and, one of these

  bool adapts(const std::string& module) const;
  float factor() const;
};
// Whether this is a parameter of an adapter.
bool is_adapter(const std::string& parameter);

struct TransformerShape {
  std::int64_t layers, hidden, heads, intermediate, vocabulary, sequence;
  std::int64_t micro_batch;  // sequences per microbatch
  float dropout = 0;         // of embedding, attention probabilities and residual branches
  DType compute = DType::f32;
  std::int64_t vocabulary_chunk = 0;  // rows of the table that travel at once; 0: as many as fit in a block's slot
  std::int64_t kv_heads = 0;          // heads of keys and values, a divisor of heads; 0: as many as heads
  std::int64_t head_size = 0;         // elements of a head; 0: hidden / heads
  float rope_theta = 10000;
  float norm_epsilon = 0;  // 0: the family's own
  bool tie_embeddings = true;
  std::int64_t labels = 0;  // logits of a row, where the head does not predict tokens
  HeadKind head_kind = HeadKind::language;
  bool core_attention = false;  // attention in separate ops (GraphBuilder::core_attention) instead of one
  Reversible reversible = Reversible::no;
  bool packed = false;  // documents share sequences: what Region::rows says of each row counts, not its place
  // Graphs that continue texts, for no training: rows of keys and values that Region::cache keeps of each sequence, of
  // which `sequence` are new in a run. Needs `packed`. 0: no such graphs.
  std::int64_t cache = 0;
  std::int64_t context = 0;   // with a cache: the longest sequence that the model is run with
  bool keeps_inputs = false;  // reversible blocks: stash inputs as other blocks do, instead of rebuilding them

  std::int64_t positions = 0;       // rows of a table of learned positions; 0: as many as are used
  std::int64_t first_position = 0;  // the row of that table which the first token of a sequence uses
  std::int64_t token_types = 2;     // rows of a token type table, of which the first is used
  Activation activation = Activation::own;
  bool qkv_bias = false, output_bias = false, mlp_bias = false;  // where families differ in them
  bool head_norms = false;                                       // RMS norms of each head of queries and keys
  std::vector<bool> sliding = {};                                // whether block i % size slides; empty: none does
  std::int64_t window = 0;  // of sliding blocks: rows that a row sees, itself included
  float local_theta = 0;    // of sliding blocks: base of positions without scaling; 0: as other blocks
  compiler::RotaryScaling rope_scaling = {};
  float query_scale = 0;  // scores are scaled by its inverse square root; 0: that of head_dim()
  float attention_softcap = 0, logit_softcap = 0;  // 0: none
  std::vector<std::string> train = {};  // patterns of the names of parameters that are trained (glob); empty: all are

  Lora lora = {};
  std::vector<Layer> blocks = {};  // ModelOptions::blocks: instead of `layers` blocks of the family
  std::optional<LayerReserve> reserve = {};
  // Of a custom model, which is `blocks` from `inputs` to `loss`; sequences are one row, a sample.
  std::vector<TensorSpec> inputs = {}, targets = {};
  LossBuilder loss = nullptr;
  compiler::Shard shard = {};  // the device's, of a model that is split over devices (models/split_layers.h)
  bool whole_rows = false;     // likewise: tensor parallelism alone, each device has all rows

  // With adapters, these and what `train` names alone.
  bool trains(const std::string& parameter) const;

  bool split() const { return shard.count > 1; }
  std::int64_t rows() const { return micro_batch * sequence; }  // tokens of a microbatch
  // Of what lies between layers.
  compiler::Shard rows_shard() const { return whole_rows ? compiler::Shard{} : shard; }
  std::int64_t own_rows() const { return rows() / rows_shard().count; }
  std::int64_t own_heads() const { return heads / shard.count; }
  // 0 where there are as many as heads; one that several devices have where there are fewer than devices.
  std::int64_t own_kv_heads() const { return kv_heads == 0 ? 0 : std::max<std::int64_t>(1, kv_heads / shard.count); }
  std::int64_t head_dim() const { return head_size > 0 ? head_size : hidden / heads; }
  std::int64_t queries() const { return heads * head_dim(); }  // columns of all queries
  std::int64_t keys() const { return (kv_heads > 0 ? kv_heads : heads) * head_dim(); }
  std::int64_t position_rows() const { return positions > 0 ? positions : first_position + sequence; }
  bool slides(std::int64_t block) const {
    return !sliding.empty() && sliding[static_cast<std::size_t>(block) % sliding.size()];
  }
  Activation activation_or(Activation own) const { return activation == Activation::own ? own : activation; }
  float epsilon_or(float own) const { return norm_epsilon > 0 ? norm_epsilon : own; }

  // Rows whose logits LayerType::logits computes at once.
  std::int64_t logit_rows() const { return cache > 0 ? rows() : 1; }

  // Between layers lie one activation [rows, hidden], or the two streams of a reversible model, one behind the other.
  bool streams() const { return reversible != Reversible::no; }
  DType stream_type() const { return stream_dtype(reversible, compute); }
  Bytes second_stream() const { return static_cast<Bytes>(rows() * hidden) * size_of(stream_type()); }
};

}  // namespace l2l::models
