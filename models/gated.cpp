// Models with rotary positions and gated MLPs: Llama and Gemma.
#include <cmath>
#include <optional>

#include "models/families.h"
#include "models/family.h"

namespace l2l::models {
namespace {

using compiler::Attributes;
using compiler::GraphBuilder;
using compiler::ValueId;

constexpr float kEpsilon = 1e-5f;  // of all norms

// What an RMS norm multiplies by. Weights begin at 1, or at 0 where 1 is added to them.
enum class Gain : std::uint8_t { weight, one_plus_weight };

// x w^T, with a bias if `bias`. Matrices are [out, in]; several pieces are neighbours in the wire and make one product.
ValueId project(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
                const std::vector<LayerWeights::Piece>& pieces, std::int64_t columns, float deviation, bool bias) {
  std::vector<LayerWeights::Piece> matrices = pieces, biases = pieces;
  for (LayerWeights::Piece& piece : matrices) piece.name += ".weight";
  for (LayerWeights::Piece& piece : biases) piece.name += ".bias";
  const ValueId w = weights.joined_matrix(matrices, columns, deviation);
  std::optional<ValueId> b;
  if (bias) b = weights.joined_vector(biases, Initial::zeros);
  return adapt(graph, weights, shape, x, graph.linear_transposed(x, w, b), columns, pieces);
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

ValueId rms_norm(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
                 const std::string& name, Gain gain) {
  const ValueId weight = weights.vector(name + ".weight", shape.hidden, initial_weights(gain));
  return graph.rms_norm(x, weight, shape.epsilon_or(kEpsilon), gain == Gain::one_plus_weight);
}

ValueId rotary_attention(GraphBuilder& graph, LayerWeights& weights, ValueId normed, const TransformerShape& shape,
                         Gain gain) {
  const Attributes attributes = attention_attributes(shape);
  ValueId qkv = project(
      graph, weights, normed, shape,
      {{"self_attn.q_proj", shape.queries()}, {"self_attn.k_proj", shape.keys()}, {"self_attn.v_proj", shape.keys()}},
      shape.hidden, kInitialDeviation, shape.qkv_bias);
  if (shape.head_norms) qkv = norm_heads(graph, weights, qkv, shape, attributes, gain);
  const ValueId turned = graph.rotary(qkv, attributes, read_rows(graph, shape, compiler::RowField::position));
  const ValueId mixed = attend(graph, shape, turned, attributes);
  return project(graph, weights, mixed, shape, {{"self_attn.o_proj", shape.hidden}}, shape.queries(),
                 residual_deviation(shape), shape.output_bias);
}

ValueId gated_mlp(GraphBuilder& graph, LayerWeights& weights, ValueId normed, const TransformerShape& shape,
                  Gain gain) {
  const std::int64_t wide = shape.intermediate;
  const Activation activation = shape.activation_or(gain == Gain::weight ? Activation::silu : Activation::gelu_tanh);
  const ValueId gate_and_up = project(graph, weights, normed, shape, {{"mlp.gate_proj", wide}, {"mlp.up_proj", wide}},
                                      shape.hidden, kInitialDeviation, shape.mlp_bias);
  const ValueId gated =
      graph.swiglu(gate_and_up, {.exact = activation == Activation::gelu, .gelu = activation != Activation::silu});
  return project(graph, weights, gated, shape, {{"mlp.down_proj", shape.hidden}}, wide, residual_deviation(shape),
                 shape.mlp_bias);
}

// A branch of a block with its norms: before it, and behind it where `after` names one.
template <typename Branch>
Family::Part normed(Branch branch, Gain gain, const char* before, const char* after = nullptr) {
  return [=](GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
    const ValueId y = branch(graph, weights, rms_norm(graph, weights, x, shape, before, gain), shape, gain);
    return after == nullptr ? y : rms_norm(graph, weights, y, shape, after, gain);
  };
}

// All but the branches.
Family gated_family(const TransformerShape& shape, Gain gain) {
  Family family;
  family.table = "model.embed_tokens.weight";
  if (!shape.tie_embeddings) family.head_table = "lm_head.weight";
  family.head = [gain](GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& own) {
    return rms_norm(graph, weights, x, own, "model.norm", gain);
  };
  family.classifier = {.features = family.head, .weight = "score.weight", .bias = "", .group = "score"};
  if (shape.head_kind == HeadKind::tokens) family.classifier.bias = "score.bias";
  family.table_group = "model.embed_tokens";
  family.head_group = "model.norm";
  family.blocks = "model.layers";
  return family;
}

}  // namespace

Model make_llama(const TransformerShape& shape) {
  constexpr Gain kGain = Gain::weight;
  Family family = gated_family(shape, kGain);
  family.branches = {normed(rotary_attention, kGain, "input_layernorm"),
                     normed(gated_mlp, kGain, "post_attention_layernorm")};
  return assemble(shape, family);
}

Model make_gemma(const TransformerShape& shape) {
  constexpr Gain kGain = Gain::one_plus_weight;
  Family family = gated_family(shape, kGain);
  family.embedding_factor = std::sqrt(static_cast<float>(shape.hidden));
  family.branches = {normed(rotary_attention, kGain, "input_layernorm", "post_attention_layernorm"),
                     normed(gated_mlp, kGain, "pre_feedforward_layernorm", "post_feedforward_layernorm")};
  return assemble(shape, family);
}

}  // namespace l2l::models
