#include "device/graph/op_table.h"

#include <array>

#include "device/graph/vjp.h"
#include "l2l/errors.h"

namespace l2l::device::graph {
namespace {

constexpr std::uint32_t kRngOps = 256;  // RngKey::op

void require(bool condition, const std::string& message) {
  if (!condition) throw BadInput(message);
}

void derive_embedding(const Attributes& attributes, Sizes& sizes) {
  const std::int64_t sequence = attributes.sequence;
  require(
      sequence >= 1 && sizes['R'] % sequence == 0,
      "R = " + std::to_string(sizes['R']) + " rows are no whole number of sequences of " + std::to_string(sequence));
  require(sizes['S'] == 0 || sequence <= sizes['S'], "a sequence of " + std::to_string(sequence) +
                                                         " is longer than the S = " + std::to_string(sizes['S']) +
                                                         " positions");
}

void require_chunk(const Attributes& attributes, Sizes& sizes) {
  require(attributes.vocabulary >= sizes['V'],
          "a vocabulary of " + std::to_string(attributes.vocabulary) +
              " tokens is smaller than its chunk of V = " + std::to_string(sizes['V']));
}

// A row's statistics are T = 3 numbers.
void derive_statistics(const Attributes&, Sizes& sizes) { sizes.set('T', 3); }

void derive_softmax_statistics(const Attributes& attributes, Sizes& sizes) {
  require_chunk(attributes, sizes);
  derive_statistics(attributes, sizes);
}

void derive_layer_norm(const Attributes& attributes, Sizes&) {
  require(attributes.epsilon > 0, "epsilon " + std::to_string(attributes.epsilon) + " must be above 0");
}

void derive_matmul(const Attributes& attributes, Sizes& sizes) {
  sizes.set('M', sizes[attributes.transpose_a ? 'B' : 'A']);
  sizes.set('K', sizes[attributes.transpose_a ? 'A' : 'B']);
  sizes.set('K', sizes[attributes.transpose_b ? 'D' : 'C']);
  sizes.set('N', sizes[attributes.transpose_b ? 'C' : 'D']);
}

void derive_dropout(const Attributes& attributes, Sizes&) {
  require(attributes.probability >= 0 && attributes.probability < 1,
          "dropout probability " + std::to_string(attributes.probability) + " must be in [0, 1)");
  require(attributes.rng_op < kRngOps, "more than 255 random ops in one layer");
}

void derive_attention(const Attributes& attributes, Sizes& sizes) {
  derive_dropout(attributes, sizes);
  require(sizes['Q'] % 3 == 0, "Q = " + std::to_string(sizes['Q']) + " columns of qkv are not three times H");
  sizes.set('H', sizes['Q'] / 3);
  sizes.set('D', attributes.heads);
  require(sizes['H'] % attributes.heads == 0,
          std::to_string(attributes.heads) + " heads do not divide H = " + std::to_string(sizes['H']));
  require(attributes.sequence >= 1 && sizes['R'] % attributes.sequence == 0,
          "R = " + std::to_string(sizes['R']) + " rows are no whole number of sequences of " +
              std::to_string(attributes.sequence));
}

// Sums over rows are f32; so are a norm's statistics and attention's logsumexp (D: heads).
constexpr Slot accumulator(std::string_view name, std::string_view dims) { return {name, dims, SlotType::f32, true}; }

using Table = std::array<OpRule, static_cast<std::size_t>(OpKind::count)>;

// In the order of OpKind.
Table make_table() {
  using enum SlotType;
  const Slot loss{"loss", "1", f64};
  const Slot statistics{"statistics", "RT", f64};
  const Slot mean{"mean", "R", f32}, inverse_deviation{"inverse_deviation", "R", f32},
      logsumexp{"logsumexp", "RD", f32};
  const Slot tokens{"tokens", "R", i32}, targets{"targets", "R", i32};
  return {{
      {"embedding", {tokens, {"table", "VH"}, {"positions", "SH"}}, {{"y", "RH"}}, derive_embedding, embedding_vjp},
      {"embedding_backward",
       {tokens, {"dy", "RH"}},
       {accumulator("dtable", "VH"), accumulator("dpositions", "SH")},
       derive_embedding},
      {"layer_norm",
       {{"x", "RH"}, {"gain", "H"}, {"bias", "H"}},
       {{"y", "RH"}, mean, inverse_deviation},
       derive_layer_norm,
       layer_norm_vjp},
      {"layer_norm_backward",
       {{"dy", "RH"}, {"x", "RH"}, {"gain", "H"}, mean, inverse_deviation},
       {{"dx", "RH"}, accumulator("dgain", "H"), accumulator("dbias", "H")}},
      {"matmul",
       {{"a", "AB"}, {"b", "CD"}, {"bias", "N", compute, false, true}},
       {{"y", "MN"}},
       derive_matmul,
       matmul_vjp},
      {"bias_gradient", {{"dy", "RN"}}, {accumulator("dbias", "N")}},
      {"gelu", {{"x", "RH"}}, {{"y", "RH"}}, nullptr, gelu_vjp},
      {"gelu_backward", {{"dy", "RH"}, {"x", "RH"}}, {{"dx", "RH"}}},
      {"attention", {{"qkv", "RQ"}}, {{"y", "RH"}, logsumexp}, derive_attention, attention_vjp},
      {"attention_backward", {{"dy", "RH"}, {"qkv", "RQ"}, {"y", "RH"}, logsumexp}, {{"dqkv", "RQ"}}, derive_attention},
      {"dropout", {{"x", "RH"}}, {{"y", "RH"}}, derive_dropout, dropout_vjp},
      {"add", {{"a", "RH"}, {"b", "RH"}}, {{"y", "RH"}}, nullptr, add_vjp},
      {"linear_cross_entropy", {{"x", "RH"}, {"table", "VH"}, targets}, {loss}, nullptr, linear_cross_entropy_vjp},
      {"linear_cross_entropy_backward",
       {{"x", "RH"}, {"table", "VH"}, targets},
       {loss, {"dx", "RH"}, accumulator("dtable", "VH")}},
      {"convert", {{"x", "RH", f32}}, {{"y", "RH"}}},
      {"embedding_rows", {tokens, {"table", "VH"}}, {{"y", "RH", compute, true}}, require_chunk},
      {"embedding_rows_backward", {tokens, {"dy", "RH"}}, {accumulator("dtable", "VH")}},
      {"add_positions", {{"x", "RH"}, {"positions", "SH"}}, {{"y", "RH"}}, derive_embedding},
      {"positions_backward", {{"dy", "RH"}}, {accumulator("dpositions", "SH")}, derive_embedding},
      {"softmax_statistics",
       {{"x", "RH"}, {"table", "VH"}, targets},
       {{"statistics", "RT", f64, true}},
       derive_softmax_statistics},
      {"cross_entropy", {statistics, targets}, {loss}, derive_statistics},
      {"chunk_cross_entropy_backward",
       {{"x", "RH"}, {"table", "VH"}, targets, statistics},
       {accumulator("dx", "RH"), accumulator("dtable", "VH")},
       derive_statistics},
  }};
}

}  // namespace

const OpRule& rule_of(OpKind kind) {
  static const Table table = make_table();
  if (kind >= OpKind::count) throw Error("no op of kind " + std::to_string(static_cast<int>(kind)));
  return table[static_cast<std::size_t>(kind)];
}

bool accumulates(const Op& op, std::size_t position) {
  if (op.kind == OpKind::matmul) return op.attributes.accumulate;
  return rule_of(op.kind).outputs[position].accumulates;
}

}  // namespace l2l::device::graph
