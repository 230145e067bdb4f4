#include "models/llama.h"

#include "models/gated.h"

namespace l2l::models {
namespace {

using compiler::GraphBuilder;
using compiler::ValueId;

ValueId norm(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
             const std::string& name) {
  return rms_norm(graph, weights, x, shape, name, /*unit_offset=*/false);
}

ValueId attention(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const ValueId normed = norm(graph, weights, x, shape, "input_layernorm");
  return rotary_attention(graph, weights, normed, shape, /*unit_offset=*/false);
}

ValueId mlp(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  return gated_mlp(graph, weights, norm(graph, weights, x, shape, "post_attention_layernorm"), shape, Activation::silu);
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
