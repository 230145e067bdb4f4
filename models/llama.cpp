#include "models/llama.h"

#include "models/gated.h"

namespace l2l::models {
namespace {

using compiler::GraphBuilder;
using compiler::ValueId;

ValueId attention(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const ValueId normed = rms_norm(graph, weights, x, shape, "input_layernorm", Gain::weight);
  return rotary_attention(graph, weights, normed, shape, Gain::weight);
}

ValueId mlp(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const ValueId normed = rms_norm(graph, weights, x, shape, "post_attention_layernorm", Gain::weight);
  return gated_mlp(graph, weights, normed, shape, Activation::silu);
}

}  // namespace

Model make_llama(const TransformerShape& shape) {
  Family family = gated_family(shape, Gain::weight);
  family.branches = {attention, mlp};
  return assemble(shape, family);
}

}  // namespace l2l::models
