// Models with rotary positions and gated MLPs: Llama and Gemma.
#include <cmath>
#include <optional>

#include "models/families.h"
#include "models/family.h"
#include "models/split_layers.h"

namespace l2l::models {
namespace {

using compiler::Attributes;
using compiler::GraphBuilder;
using compiler::ValueId;

constexpr float kEpsilon = 1e-5f;  // of all norms

// What an RMS norm multiplies by. Weights begin at 1, or at 0 where 1 is added to them.
enum class Gain : std::uint8_t { weight, one_plus_weight };

// Matrices are [out, in]. The first product of a branch, x w^T, with a bias if `bias`; several pieces are neighbours in
// the wire and make one product.
ValueId widen(GraphBuilder& graph, LayerWeights& weights, ValueId normed, const TransformerShape& shape,
              const std::vector<LayerWeights::Piece>& pieces, bool bias) {
  std::vector<LayerWeights::Piece> matrices = pieces, biases = pieces;
  for (LayerWeights::Piece& piece : matrices) piece.name += ".weight";
  for (LayerWeights::Piece& piece : biases) piece.name += ".bias";
  const ValueId x = gather_rows(graph, normed, shape);
  const ValueId w = weights.joined_matrix(matrices, shape.hidden, kInitialDeviation, {shape.shard, 0});
  std::optional<ValueId> b;
  if (bias) b = weights.joined_vector(biases, Initial::zeros, 0, {shape.shard, 0});
  return adapt(graph, weights, shape, x, graph.linear_transposed(x, w, b), shape.hidden, pieces);
}

// The second one.
ValueId narrow(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
               const std::string& name, std::int64_t columns, bool bias) {
  const ValueId w =
      weights.matrix(name + ".weight", shape.hidden, columns, residual_deviation(shape), {shape.shard, 1});
  std::optional<ValueId> b;
  if (bias) b = bias_of_sums(weights, name + ".bias", shape.hidden, shape);
  const ValueId y =
      sum_products(graph, shape, b, [&](std::optional<ValueId> own) { return graph.linear_transposed(x, w, own); });
  return adapt(graph, weights, shape, x, y, columns, {{name, shape.hidden}});
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
  ValueId qkv = widen(graph, weights, normed, shape,
                      {{"self_attn.q_proj", shape.queries()},
                       {"self_attn.k_proj", shape.keys(), shape.kv_heads},
                       {"self_attn.v_proj", shape.keys(), shape.kv_heads}},
                      shape.qkv_bias);
  if (shape.head_norms) qkv = norm_heads(graph, weights, qkv, shape, attributes, gain);
  const ValueId turned = graph.rotary(qkv, attributes, read_rows(graph, shape, compiler::RowField::position));
  const ValueId mixed = attend(graph, shape, turned, attributes);
  return narrow(graph, weights, mixed, shape, "self_attn.o_proj", shape.queries(), shape.output_bias);
}

ValueId gated_mlp(GraphBuilder& graph, LayerWeights& weights, ValueId normed, const TransformerShape& shape,
                  Gain gain) {
  const std::int64_t wide = shape.intermediate;
  const Activation activation = shape.activation_or(gain == Gain::weight ? Activation::silu : Activation::gelu_tanh);
  const ValueId gate_and_up =
      widen(graph, weights, normed, shape, {{"mlp.gate_proj", wide}, {"mlp.up_proj", wide}}, shape.mlp_bias);
  const ValueId gated =
      graph.swiglu(gate_and_up, {.exact = activation == Activation::gelu, .gelu = activation != Activation::silu});
  return narrow(graph, weights, gated, shape, "mlp.down_proj", wide, shape.mlp_bias);
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
