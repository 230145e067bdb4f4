#include "models/gemma.h"

#include <cmath>

#include "models/gated.h"

namespace l2l::models {
namespace {

using compiler::GraphBuilder;
using compiler::ValueId;

ValueId norm(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
             const std::string& name) {
  return rms_norm(graph, weights, x, shape, name, /*unit_offset=*/true);
}

ValueId attention(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const ValueId normed = norm(graph, weights, x, shape, "input_layernorm");
  const ValueId y = rotary_attention(graph, weights, normed, shape, /*unit_offset=*/true);
  return norm(graph, weights, y, shape, "post_attention_layernorm");
}

ValueId mlp(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const ValueId normed = norm(graph, weights, x, shape, "pre_feedforward_layernorm");
  const ValueId y = gated_mlp(graph, weights, normed, shape, Activation::gelu_tanh);
  return norm(graph, weights, y, shape, "post_feedforward_layernorm");
}

ValueId final_norm(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  return norm(graph, weights, x, shape, "model.norm");
}

}  // namespace

Model make_gemma(const TransformerShape& shape) {
  Family family;
  family.table = "model.embed_tokens.weight";
  if (!shape.tie_embeddings) family.head_table = "lm_head.weight";
  family.embedding_factor = std::sqrt(static_cast<float>(shape.hidden));
  family.branches = {attention, mlp};
  family.head = final_norm;
  family.table_group = "model.embed_tokens";
  family.head_group = "model.norm";
  family.blocks = "model.layers";
  return assemble(shape, family);
}

}  // namespace l2l::models
