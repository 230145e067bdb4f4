// The shapes of one attention op, for its CUDA kernels and for the code that launches them. A row of qkv holds the
// heads of queries, then those of keys, then those of values, each head_dim wide.
#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"

namespace l2l::device::cuda {

// Immutable, and copied into kernels. Element counts are 64-bit; all positions within a sequence are int.
struct AttentionProblem {
  std::int64_t sequences = 0;
  int sequence = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = true;
  bool vector = false;          // every head begins on 16 bytes
  int window = 0;               // causal: rows that a row sees, itself included; at most `sequence`
  float scale = 0;              // of scores
  float cap = 0;                // of scores before they are scaled: s becomes cap tanh(s / cap); 0: none
  float kept_scale = 1;         // of probabilities that dropout keeps: 1 / (1 - p)
  std::uint32_t threshold = 0;  // core/philox.h, dropout_threshold(); 0: no dropout
  std::uint32_t rng_op = 0;

  // `qkv`: [sequences * sequence, (heads + 2 kv_heads) * head_dim]. Throws BadInput when it is not.
  AttentionProblem(const compiler::Value& qkv, const compiler::Attributes& attributes);

  // Row i of a sequence sees its rows [first_seen(i), seen_by(i)).
  constexpr int seen_by(int i) const { return causal ? i + 1 : sequence; }
  constexpr int first_seen(int i) const { return causal && i >= window ? i + 1 - window : 0; }
  constexpr bool sees(int i, int j) const { return !causal || (j <= i && i - j < window); }
  // The row behind the last one that sees row j.
  constexpr int seers_end(int j) const { return causal && window < sequence - j ? j + window : sequence; }

  constexpr std::int64_t rows() const { return sequences * sequence; }
  // Pairs of a sequence and a head of queries; task = sequence index * heads + head.
  constexpr std::int64_t tasks() const { return sequences * heads; }
  constexpr std::int64_t qkv_stride() const { return static_cast<std::int64_t>(heads + 2 * kv_heads) * head_dim; }
  constexpr std::int64_t y_stride() const { return static_cast<std::int64_t>(heads) * head_dim; }
  // Heads of queries that share a head of keys and values.
  constexpr int group() const { return heads / kv_heads; }

  // Elements from the start of qkv to the first row of one head.
  constexpr std::int64_t query_offset(std::int64_t sequence_index, int head) const {
    return sequence_index * sequence * qkv_stride() + static_cast<std::int64_t>(head) * head_dim;
  }
  constexpr std::int64_t key_offset(std::int64_t sequence_index, int kv_head) const {
    return query_offset(sequence_index, heads + kv_head);
  }
  constexpr std::int64_t value_offset(std::int64_t sequence_index, int kv_head) const {
    return query_offset(sequence_index, heads + kv_heads + kv_head);
  }
  constexpr std::int64_t y_offset(std::int64_t sequence_index, int head) const {
    return sequence_index * sequence * y_stride() + static_cast<std::int64_t>(head) * head_dim;
  }
  // Of logsumexp [rows, heads].
  constexpr std::int64_t logsumexp_offset(std::int64_t sequence_index, int head) const {
    return sequence_index * sequence * heads + head;
  }
  // Element index, for dropout, of the probability of query i for key 0.
  constexpr std::int64_t probability_row(std::int64_t task, int i) const { return (task * sequence + i) * sequence; }
};

}  // namespace l2l::device::cuda
