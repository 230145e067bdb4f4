#include "models/families.h"

#include "models/family.h"
#include "models/split_layers.h"

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

// Matrices are [in, out]. The first product of a branch; `sections` of its columns are split alike.
ValueId widen(GraphBuilder& graph, LayerWeights& weights, ValueId normed, const TransformerShape& shape,
              const std::string& name, std::int64_t out, std::int64_t sections) {
  const std::int64_t in = shape.hidden;
  const ValueId x = gather_rows(graph, normed, shape);
  const ValueId w = weights.matrix(name + ".weight", in, out, kInitialDeviation, {shape.shard, 1, sections});
  const ValueId bias = weights.vector(name + ".bias", out, Initial::zeros, 0, {shape.shard, 0, sections});
  return adapt(graph, weights, shape, x, graph.linear(x, w, bias), in, {{name, out}});
}

// The second one.
ValueId narrow(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
               const std::string& name, std::int64_t in) {
  const std::int64_t out = shape.hidden;
  const ValueId w = weights.matrix(name + ".weight", in, out, residual_deviation(shape), {shape.shard, 0});
  const std::optional<ValueId> bias = bias_of_sums(weights, name + ".bias", out, shape);
  const ValueId y =
      sum_products(graph, shape, bias, [&](std::optional<ValueId> own) { return graph.linear(x, w, own); });
  return adapt(graph, weights, shape, x, y, in, {{name, out}});
}

ValueId attention(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const std::int64_t hidden = shape.hidden;
  const ValueId normed = norm(graph, weights, x, shape, "ln_1");
  const ValueId qkv = widen(graph, weights, normed, shape, "attn.c_attn", 3 * hidden, /*sections=*/3);
  const ValueId mixed = attend(graph, shape, qkv,
                               {.probability = shape.dropout,
                                .heads = static_cast<int>(shape.own_heads()),
                                .sequence = static_cast<int>(shape.sequence),
                                .shard = shape.shard});
  return graph.dropout(narrow(graph, weights, mixed, shape, "attn.c_proj", hidden), shape.dropout, shape.rows_shard());
}

ValueId mlp(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const std::int64_t wide = shape.intermediate;
  const ValueId normed = norm(graph, weights, x, shape, "ln_2");
  const ValueId widened = graph.gelu(widen(graph, weights, normed, shape, "mlp.c_fc", wide, /*sections=*/1),
                                     /*exact=*/shape.activation == Activation::gelu);
  return graph.dropout(narrow(graph, weights, widened, shape, "mlp.c_proj", wide), shape.dropout, shape.rows_shard());
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
