#include "models/llama.h"

#include "models/family.h"

namespace l2l::models {
namespace {

using device::graph::Attributes;
using device::graph::GraphBuilder;
using device::graph::ValueId;

constexpr float kEpsilon = 1e-5f;  // of every norm

ValueId norm(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
             const std::string& name) {
  return graph.rms_norm(x, weights.vector(name + ".weight", shape.hidden, Initial::ones), shape.epsilon_or(kEpsilon));
}

// y = x + attention(norm(x)); z = y + mlp(norm(y)). Matrices are [out, in]; those of queries, keys and values, and of
// gate and up, are neighbours in the wire and make one product.
ValueId block(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const std::int64_t hidden = shape.hidden, wide = shape.intermediate;
  const float residual = residual_deviation(shape);
  const Attributes attention{.heads = static_cast<int>(shape.heads),
                             .kv_heads = static_cast<int>(shape.kv_heads),
                             .sequence = static_cast<int>(shape.sequence),
                             .rotary_base = shape.rope_theta};
  const std::int64_t shared = kv_heads(attention) * shape.head_dim();

  const ValueId normed = norm(graph, weights, x, shape, "input_layernorm");
  const ValueId wqkv = weights.joined_matrix(
      {{"self_attn.q_proj.weight", hidden}, {"self_attn.k_proj.weight", shared}, {"self_attn.v_proj.weight", shared}},
      hidden, kInitialDeviation);
  const ValueId qkv = graph.rotary(graph.linear_transposed(normed, wqkv), attention);
  const ValueId mixed = attend(graph, shape, qkv, attention);
  const ValueId output = weights.matrix("self_attn.o_proj.weight", hidden, hidden, residual);
  const ValueId y = graph.add(x, graph.linear_transposed(mixed, output));

  const ValueId normed_y = norm(graph, weights, y, shape, "post_attention_layernorm");
  const ValueId wide_up =
      weights.joined_matrix({{"mlp.gate_proj.weight", wide}, {"mlp.up_proj.weight", wide}}, hidden, kInitialDeviation);
  const ValueId gated = graph.swiglu(graph.linear_transposed(normed_y, wide_up));
  return graph.add(y, graph.linear_transposed(gated, weights.matrix("mlp.down_proj.weight", hidden, wide, residual)));
}

}  // namespace

Model make_llama(const TransformerShape& shape) {
  Family family;
  family.table = "model.embed_tokens.weight";
  if (!shape.tie_embeddings) family.head_table = "lm_head.weight";
  family.block = [&](GraphBuilder& graph, LayerWeights& weights, ValueId x) { return block(graph, weights, x, shape); };
  family.head = [&](GraphBuilder& graph, LayerWeights& weights, ValueId x) {
    return norm(graph, weights, x, shape, "model.norm");
  };
  family.table_group = "model.embed_tokens";
  family.head_group = "model.norm";
  family.blocks = "model.layers";
  return assemble(shape, family);
}

}  // namespace l2l::models
