#include "models/gated.h"

#include <optional>

namespace l2l::models {

using compiler::Attributes;
using compiler::GraphBuilder;
using compiler::ValueId;

namespace {

constexpr float kEpsilon = 1e-5f;  // of all norms

// x w^T, with a bias if `bias`.
ValueId project(GraphBuilder& graph, LayerWeights& weights, ValueId x, const std::vector<LayerWeights::Piece>& pieces,
                std::int64_t columns, float deviation, bool bias) {
  std::vector<LayerWeights::Piece> matrices = pieces, biases = pieces;
  for (LayerWeights::Piece& piece : matrices) piece.name += ".weight";
  for (LayerWeights::Piece& piece : biases) piece.name += ".bias";
  const ValueId w = weights.joined_matrix(matrices, columns, deviation);
  std::optional<ValueId> b;
  if (bias) b = weights.joined_vector(biases, Initial::zeros);
  return graph.linear_transposed(x, w, b);
}

Initial initial_weights(Gain gain) { return gain == Gain::weight ? Initial::ones : Initial::zeros; }

ValueId norm_heads(GraphBuilder& graph, LayerWeights& weights, ValueId qkv, const TransformerShape& shape,
                   Attributes attributes, Gain gain) {
  attributes.epsilon = shape.epsilon_or(kEpsilon);
  attributes.unit_offset = gain == Gain::one_plus_weight;
  const Initial initial = initial_weights(gain);
  const ValueId query_gain = weights.vector("self_attn.q_norm.weight", shape.head_dim(), initial);
  const ValueId key_gain = weights.vector("self_attn.k_norm.weight", shape.head_dim(), initial);
  return graph.head_norm(qkv, query_gain, key_gain, attributes);
}

}  // namespace

ValueId rms_norm(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
                 const std::string& name, Gain gain) {
  const ValueId weight = weights.vector(name + ".weight", shape.hidden, initial_weights(gain));
  return graph.rms_norm(x, weight, shape.epsilon_or(kEpsilon), gain == Gain::one_plus_weight);
}

ValueId rotary_attention(GraphBuilder& graph, LayerWeights& weights, ValueId normed, const TransformerShape& shape,
                         Gain gain) {
  const Attributes attributes = attention_attributes(shape);
  ValueId qkv = project(
      graph, weights, normed,
      {{"self_attn.q_proj", shape.queries()}, {"self_attn.k_proj", shape.keys()}, {"self_attn.v_proj", shape.keys()}},
      shape.hidden, kInitialDeviation, shape.qkv_bias);
  if (shape.head_norms) qkv = norm_heads(graph, weights, qkv, shape, attributes, gain);
  const ValueId turned = graph.rotary(qkv, attributes, read_rows(graph, shape, compiler::RowField::position));
  const ValueId mixed = attend(graph, shape, turned, attributes);
  return project(graph, weights, mixed, {{"self_attn.o_proj", shape.hidden}}, shape.queries(),
                 residual_deviation(shape), shape.output_bias);
}

ValueId gated_mlp(GraphBuilder& graph, LayerWeights& weights, ValueId normed, const TransformerShape& shape,
                  Activation gate) {
  const std::int64_t wide = shape.intermediate;
  const Activation activation = shape.activation_or(gate);
  const ValueId gate_and_up = project(graph, weights, normed, {{"mlp.gate_proj", wide}, {"mlp.up_proj", wide}},
                                      shape.hidden, kInitialDeviation, shape.mlp_bias);
  const ValueId gated =
      graph.swiglu(gate_and_up, {.exact = activation == Activation::gelu, .gelu = activation != Activation::silu});
  return project(graph, weights, gated, {{"mlp.down_proj", shape.hidden}}, wide, residual_deviation(shape),
                 shape.mlp_bias);
}

Family gated_family(const TransformerShape& shape, Gain gain) {
  Family family;
  family.table = "model.embed_tokens.weight";
  if (!shape.tie_embeddings) family.head_table = "lm_head.weight";
  family.head = [gain](GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& own) {
    return rms_norm(graph, weights, x, own, "model.norm", gain);
  };
  family.table_group = "model.embed_tokens";
  family.head_group = "model.norm";
  family.blocks = "model.layers";
  return family;
}

}  // namespace l2l::models
