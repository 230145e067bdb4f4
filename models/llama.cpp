#include "models/llama.h"

#include "models/family.h"

namespace l2l::models {
namespace {

using compiler::Attributes;
using compiler::GraphBuilder;
using compiler::ValueId;

constexpr float kEpsilon = 1e-5f;  // of all norms

ValueId norm(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
             const std::string& name) {
  return graph.rms_norm(x, weights.vector(name + ".weight", shape.hidden, Initial::ones), shape.epsilon_or(kEpsilon));
}

// Matrices are [out, in]; those of queries, keys and values, and of gate and up, are neighbours in the wire and make
// one product.
ValueId attention(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const std::int64_t hidden = shape.hidden;
  const Attributes attributes{.heads = static_cast<int>(shape.heads),
                              .kv_heads = static_cast<int>(shape.kv_heads),
                              .sequence = static_cast<int>(shape.sequence),
                              .rotary_base = shape.rope_theta};
  const std::int64_t shared = kv_heads(attributes) * shape.head_dim();

  const ValueId normed = norm(graph, weights, x, shape, "input_layernorm");
  const ValueId wqkv = weights.joined_matrix(
      {{"self_attn.q_proj.weight", hidden}, {"self_attn.k_proj.weight", shared}, {"self_attn.v_proj.weight", shared}},
      hidden, kInitialDeviation);
  const ValueId mixed =
      attend(graph, shape, graph.rotary(graph.linear_transposed(normed, wqkv), attributes), attributes);
  return graph.linear_transposed(mixed,
                                 weights.matrix("self_attn.o_proj.weight", hidden, hidden, residual_deviation(shape)));
}

ValueId mlp(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const std::int64_t hidden = shape.hidden, wide = shape.intermediate;
  const ValueId normed = norm(graph, weights, x, shape, "post_attention_layernorm");
  const ValueId wide_up =
      weights.joined_matrix({{"mlp.gate_proj.weight", wide}, {"mlp.up_proj.weight", wide}}, hidden, kInitialDeviation);
  const ValueId gated = graph.swiglu(graph.linear_transposed(normed, wide_up));
  return graph.linear_transposed(gated,
                                 weights.matrix("mlp.down_proj.weight", hidden, wide, residual_deviation(shape)));
}

ValueId final_norm(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  return norm(graph, weights, x, shape, "model.norm");
}

}  // namespace

Model make_llama(const TransformerShape& shape) {
  Family family;
  family.table = "model.embed_tokens.weight";
  if (!shape.tie_embeddings) family.head_table = "lm_head.weight";
  family.branches = {attention, mlp};
  family.head = final_norm;
  family.table_group = "model.embed_tokens";
  family.head_group = "model.norm";
  family.blocks = "model.layers";
  return assemble(shape, family);
}

}  // namespace l2l::models
