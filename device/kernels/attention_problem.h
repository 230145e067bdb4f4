// The shapes of one attention op, for its CUDA kernels and for the code that launches them. A row of qkv holds the
// heads of queries, then those of keys, then those of values, each head_dim wide.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/ir/graph.h"

namespace l2l::device::cuda {

// Immutable, and copied into kernels. Element counts are 64-bit; all positions within a sequence are int.
struct AttentionProblem {
  std::int64_t sequences = 0;
  int sequence = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = true;
  bool vector = false;    // every head begins on 16 bytes
  int window = 0;         // causal: rows that a row sees, itself included; at most `sequence`
  float scale = 0;        // of scores
  float cap = 0;          // of scores before they are scaled: s becomes cap tanh(s / cap); 0: none
  float probability = 0;  // of dropout; 0: none
  std::uint32_t rng_op = 0;
  int other_heads = 0, first_head = 0;  // of queries, on the other devices; the first one here among those of all

  // `qkv`: [sequences * sequence, (heads + 2 kv_heads) * head_dim]. Throws BadInput when it is not.
  AttentionProblem(const compiler::Value& qkv, const compiler::Attributes& attributes);

  // Row i of a sequence that is one document sees its rows [first_seen(i), seen_by(i)).
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
  // Elements from the start of matrices [tasks, sequence, sequence], such as core attention's, to one row.
  constexpr std::int64_t matrix_offset(std::int64_t task, int i) const { return (task * sequence + i) * sequence; }
  // Element index, for dropout, of the probability of query i for key 0, among those of all devices' heads.
  constexpr std::int64_t probability_row(std::int64_t task, int i) const {
    const auto sequence_index = static_cast<std::uint32_t>(task) / static_cast<std::uint32_t>(heads);
    const std::int64_t of_all = task + std::int64_t{sequence_index} * other_heads + first_head;
    return (of_all * sequence + i) * sequence;
  }
};

// What the rows of one sequence see of it, where documents may share it. Without kPacked the problem alone says so, and
// no register is taken for documents.
template <bool kPacked>
struct SeenRows;

template <>
struct SeenRows<false> {
  const AttentionProblem& problem;

  constexpr SeenRows(const AttentionProblem& problem, const std::int32_t* /*documents*/, std::int64_t /*sequence*/)
      : problem(problem) {}

  constexpr int first(int i) const { return problem.first_seen(i); }
  constexpr int end(int i) const { return problem.seen_by(i); }
  constexpr bool sees(int i, int j) const { return problem.sees(i, j); }
  // Rows [seers_begin(j), seers_end(j)) hold all that see row j.
  constexpr int seers_begin(int j) const { return problem.causal ? j : 0; }
  constexpr int seers_end(int j) const { return problem.seers_end(j); }
};

// Begins and ends never fall from one row to the next. Rows behind the sequence count as its last one.
template <>
struct SeenRows<true> {
  const AttentionProblem& problem;
  const std::int32_t *begins, *ends;  // of each row's document; null: it is the sequence

  // `documents`: begins, then ends of all rows; may be null.
  constexpr SeenRows(const AttentionProblem& problem, const std::int32_t* documents, std::int64_t sequence)
      : problem(problem),
        begins(documents == nullptr ? nullptr : documents + sequence * problem.sequence),
        ends(documents == nullptr ? nullptr : begins + problem.rows()) {}

  constexpr int begin_of(int i) const { return begins == nullptr ? 0 : begins[inside(i)]; }
  constexpr int end_of(int i) const { return ends == nullptr ? problem.sequence : ends[inside(i)]; }
  constexpr int first(int i) const { return larger(begin_of(i), problem.first_seen(i)); }
  constexpr int end(int i) const { return problem.causal ? i + 1 : end_of(i); }
  constexpr bool sees(int i, int j) const {
    return problem.sees(i, j) && j >= begin_of(i) && (problem.causal || j < end_of(i));
  }
  constexpr int seers_begin(int j) const { return problem.causal ? j : begin_of(j); }
  constexpr int seers_end(int j) const { return smaller(problem.seers_end(j), end_of(j)); }

 private:
  constexpr int inside(int i) const { return smaller(i, problem.sequence - 1); }
  static constexpr int smaller(int a, int b) { return a < b ? a : b; }
  static constexpr int larger(int a, int b) { return a > b ? a : b; }
};

// Says, once for each shape, which kernels serve a "forward" or "backward" pass: its time and last bits depend on them.
void tell_kernels(const AttentionProblem& problem, DType dtype, const std::string& pass, const std::string& kernels);

}  // namespace l2l::device::cuda
