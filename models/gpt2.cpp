#include "models/families.h"

#include "models/family.h"

namespace l2l::models {
namespace {

using compiler::GraphBuilder;
using compiler::ValueId;

constexpr float kEpsilon = 1e-5f;  // of all norms

ValueId norm(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
             const std::string& name) {
  const ValueId gain = weights.vector(name + ".weight", shape.hidden, Initial::ones);
  const ValueId bias = weights.vector(name + ".bias", shape.hidden, Initial::zeros);
  return graph.layer_norm(x, gain, bias, shape.epsilon_or(kEpsilon));
}

// Matrices are [in, out].
ValueId linear(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
               const std::string& name, std::int64_t in, std::int64_t out, float deviation) {
  const ValueId w = weights.matrix(name + ".weight", in, out, deviation);
  const ValueId y = graph.linear(x, w, weights.vector(name + ".bias", out, Initial::zeros));
  return adapt(graph, weights, shape, x, y, in, {{name, out}});
}

ValueId attention(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const std::int64_t hidden = shape.hidden;
  const ValueId qkv = linear(graph, weights, norm(graph, weights, x, shape, "ln_1"), shape, "attn.c_attn", hidden,
                             3 * hidden, kInitialDeviation);
  const ValueId mixed = attend(graph, shape, qkv,
                               {.probability = shape.dropout,
                                .heads = static_cast<int>(shape.heads),
                                .sequence = static_cast<int>(shape.sequence)});
  const ValueId projected =
      linear(graph, weights, mixed, shape, "attn.c_proj", hidden, hidden, residual_deviation(shape));
  return graph.dropout(projected, shape.dropout);
}

ValueId mlp(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const std::int64_t hidden = shape.hidden, wide = shape.intermediate;
  const ValueId widened = graph.gelu(linear(graph, weights, norm(graph, weights, x, shape, "ln_2"), shape, "mlp.c_fc",
                                            hidden, wide, kInitialDeviation),
                                     /*exact=*/shape.activation == Activation::gelu);
  const ValueId narrowed =
      linear(graph, weights, widened, shape, "mlp.c_proj", wide, hidden, residual_deviation(shape));
  return graph.dropout(narrowed, shape.dropout);
}

ValueId final_norm(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  return norm(graph, weights, x, shape, "ln_f");
}

}  // namespace

Model make_gpt2(const TransformerShape& shape) {
  Family family;
  family.table = "wte.weight";
  if (!shape.tie_embeddings) family.head_table = "lm_head.weight";
  family.positions = {{"wpe.weight", shape.position_rows(), static_cast<int>(shape.sequence), kInitialDeviation / 2}};
  family.embedding_dropout = shape.dropout;
  family.branches = {attention, mlp};
  family.head = final_norm;
  family.classifier = {.features = final_norm, .weight = "score.weight", .bias = "", .group = "score"};
  if (shape.head_kind == HeadKind::tokens) {
    family.classifier = {.features = dropped_out(final_norm),
                         .weight = "classifier.weight",
                         .bias = "classifier.bias",
                         .group = "classifier"};
  }
  family.table_group = "wte";
  family.positions_group = "wpe";
  family.head_group = "ln_f";
  family.blocks = "h";
  return assemble(shape, family);
}

}  // namespace l2l::models
