#include "models/bert.h"

#include "models/family.h"

namespace l2l::models {
namespace {

using compiler::Attributes;
using compiler::GraphBuilder;
using compiler::ValueId;

constexpr float kEpsilon = 1e-12f;  // of all norms
constexpr std::int64_t kTokenTypes = 2;

ValueId norm(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
             const std::string& name) {
  const ValueId gain = weights.vector(name + ".weight", shape.hidden, Initial::ones);
  const ValueId bias = weights.vector(name + ".bias", shape.hidden, Initial::zeros);
  return graph.layer_norm(x, gain, bias, shape.epsilon_or(kEpsilon));
}

// Matrices are [out, in].
ValueId linear(GraphBuilder& graph, LayerWeights& weights, ValueId x, const std::string& name, std::int64_t in,
               std::int64_t out) {
  const ValueId w = weights.matrix(name + ".weight", out, in, kInitialDeviation);
  return graph.linear_transposed(x, w, weights.vector(name + ".bias", out, Initial::zeros));
}

// Queries, keys and values in one product: their matrices, and their biases, are neighbours in the wire.
ValueId qkv(GraphBuilder& graph, LayerWeights& weights, ValueId x, std::int64_t hidden) {
  std::vector<LayerWeights::Piece> matrices, biases;
  for (const char* const name : {"query", "key", "value"}) {
    matrices.push_back({std::string("attention.self.") + name + ".weight", hidden});
    biases.push_back({std::string("attention.self.") + name + ".bias", hidden});
  }
  const ValueId w = weights.joined_matrix(matrices, hidden, kInitialDeviation);
  return graph.linear_transposed(x, w, weights.joined_vector(biases, Initial::zeros));
}

// y = norm(x + attention(x)); z = norm(y + mlp(y)).
ValueId block(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const Attributes attention{.probability = shape.dropout,
                             .heads = static_cast<int>(shape.heads),
                             .causal = false,
                             .sequence = static_cast<int>(shape.sequence)};
  const std::int64_t hidden = shape.hidden, wide = shape.intermediate;
  const ValueId mixed = attend(graph, shape, qkv(graph, weights, x, hidden), attention);
  const ValueId projected = linear(graph, weights, mixed, "attention.output.dense", hidden, hidden);
  const ValueId y =
      norm(graph, weights, graph.add(x, graph.dropout(projected, shape.dropout)), shape, "attention.output.LayerNorm");
  const ValueId widened = graph.gelu(linear(graph, weights, y, "intermediate.dense", hidden, wide), /*exact=*/true);
  const ValueId narrowed = linear(graph, weights, widened, "output.dense", wide, hidden);
  return norm(graph, weights, graph.add(y, graph.dropout(narrowed, shape.dropout)), shape, "output.LayerNorm");
}

ValueId embedding_norm(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  return graph.dropout(norm(graph, weights, x, shape, "bert.embeddings.LayerNorm"), shape.dropout);
}

ValueId transform(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const std::string name = "cls.predictions.transform.";
  const ValueId dense = linear(graph, weights, x, name + "dense", shape.hidden, shape.hidden);
  return norm(graph, weights, graph.gelu(dense, /*exact=*/true), shape, name + "LayerNorm");
}

}  // namespace

Model make_bert(const TransformerShape& shape) {
  Family family;
  family.table = "bert.embeddings.word_embeddings.weight";
  family.head_bias = "cls.predictions.bias";
  family.positions = {{"bert.embeddings.position_embeddings.weight", shape.sequence, static_cast<int>(shape.sequence),
                       kInitialDeviation},
                      {"bert.embeddings.token_type_embeddings.weight", kTokenTypes, 1, kInitialDeviation}};
  family.embedding_norm = embedding_norm;
  family.block = block;
  family.head = transform;
  family.causal = false;
  family.table_group = "bert.embeddings.word_embeddings";
  family.positions_group = "bert.embeddings.positions";
  family.head_group = "cls.predictions.transform";
  family.blocks = "bert.encoder.layer";
  return assemble(shape, family);
}

}  // namespace l2l::models
