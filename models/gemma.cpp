#include "models/gemma.h"

#include <cmath>

#include "models/gated.h"

namespace l2l::models {
namespace {

using compiler::GraphBuilder;
using compiler::ValueId;

ValueId norm(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
             const std::string& name) {
  return rms_norm(graph, weights, x, shape, name, Gain::one_plus_weight);
}

ValueId attention(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const ValueId normed = norm(graph, weights, x, shape, "input_layernorm");
  const ValueId y = rotary_attention(graph, weights, normed, shape, Gain::one_plus_weight);
  return norm(graph, weights, y, shape, "post_attention_layernorm");
}

ValueId mlp(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const ValueId normed = norm(graph, weights, x, shape, "pre_feedforward_layernorm");
  const ValueId y = gated_mlp(graph, weights, normed, shape, Activation::gelu_tanh);
  return norm(graph, weights, y, shape, "post_feedforward_layernorm");
}

}  // namespace

Model make_gemma(const TransformerShape& shape) {
  Family family = gated_family(shape, Gain::one_plus_weight);
  family.embedding_factor = std::sqrt(static_cast<float>(shape.hidden));
  family.branches = {attention, mlp};
  return assemble(shape, family);
}

}  // namespace l2l::models
