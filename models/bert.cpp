#include "models/families.h"

#include "models/family.h"
#include "models/split_layers.h"

namespace l2l::models {
namespace {

using compiler::Attributes;
using compiler::GraphBuilder;
using compiler::ValueId;

constexpr float kEpsilon = 1e-12f;  // of all norms

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

// In a block, where it may be adapted and split: the MLP's first product.
ValueId widen(GraphBuilder& graph, LayerWeights& weights, ValueId own, const TransformerShape& shape,
              const std::string& name) {
  const std::int64_t in = shape.hidden, out = shape.intermediate;
  const ValueId x = gather_rows(graph, own, shape);
  const ValueId w = weights.matrix(name + ".weight", out, in, kInitialDeviation, {shape.shard, 0});
  const ValueId bias = weights.vector(name + ".bias", out, Initial::zeros, 0, {shape.shard, 0});
  return adapt(graph, weights, shape, x, graph.linear_transposed(x, w, bias), in, {{name, out}});
}

// The second product of a branch.
ValueId narrow(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape,
               const std::string& name, std::int64_t in) {
  const ValueId w = weights.matrix(name + ".weight", shape.hidden, in, kInitialDeviation, {shape.shard, 1});
  const std::optional<ValueId> bias = bias_of_sums(weights, name + ".bias", shape.hidden, shape);
  const ValueId y =
      sum_products(graph, shape, bias, [&](std::optional<ValueId> own) { return graph.linear_transposed(x, w, own); });
  return adapt(graph, weights, shape, x, y, in, {{name, shape.hidden}});
}

ValueId gelu(GraphBuilder& graph, ValueId x, const TransformerShape& shape) {
  return graph.gelu(x, shape.activation_or(Activation::gelu) == Activation::gelu);
}

// Queries, keys and values in one product: their matrices, and their biases, are neighbours in the wire.
ValueId qkv(GraphBuilder& graph, LayerWeights& weights, ValueId own, const TransformerShape& shape) {
  const std::int64_t hidden = shape.hidden;
  std::vector<LayerWeights::Piece> modules, matrices, biases;
  for (const char* const name : {"query", "key", "value"}) {
    modules.push_back({std::string("attention.self.") + name, hidden});
    matrices.push_back({modules.back().name + ".weight", hidden});
    biases.push_back({modules.back().name + ".bias", hidden});
  }
  const ValueId x = gather_rows(graph, own, shape);
  const ValueId w = weights.joined_matrix(matrices, hidden, kInitialDeviation, {shape.shard, 0});
  const ValueId bias = weights.joined_vector(biases, Initial::zeros, 0, {shape.shard, 0});
  const ValueId y = graph.linear_transposed(x, w, bias);
  return adapt(graph, weights, shape, x, y, hidden, modules);
}

// y = norm(x + attention(x)); z = norm(y + mlp(y)).
ValueId block(GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
  const Attributes attention{.probability = shape.dropout,
                             .heads = static_cast<int>(shape.own_heads()),
                             .causal = false,
                             .sequence = static_cast<int>(shape.sequence),
                             .shard = shape.shard};
  const ValueId mixed = attend(graph, shape, qkv(graph, weights, x, shape), attention);
  const ValueId projected = narrow(graph, weights, mixed, shape, "attention.output.dense", shape.hidden);
  const ValueId y = norm(graph, weights, graph.add(x, graph.dropout(projected, shape.dropout, shape.rows_shard())),
                         shape, "attention.output.LayerNorm");
  const ValueId widened = gelu(graph, widen(graph, weights, y, shape, "intermediate.dense"), shape);
  const ValueId narrowed = narrow(graph, weights, widened, shape, "output.dense", shape.intermediate);
  return norm(graph, weights, graph.add(y, graph.dropout(narrowed, shape.dropout, shape.rows_shard())), shape,
              "output.LayerNorm");
}

// What the names of BERT's and RoBERTa's parameters begin with, outside of blocks.
struct Names {
  std::string embeddings, blocks;
  std::string dense, norm, bias, decoder;  // of the head; an untied one's bias is the decoder's
  std::string pooler, classifier;          // of a classifier
  std::string base_pooler;                 // of the base model
};

const Names kBert = {"bert.embeddings.",
                     "bert.encoder.layer",
                     "cls.predictions.transform.dense",
                     "cls.predictions.transform.LayerNorm",
                     "cls.predictions.bias",
                     "cls.predictions.decoder",
                     "bert.pooler.dense",
                     "classifier",
                     "bert.pooler.dense"};
const Names kRoberta = {"roberta.embeddings.", "roberta.encoder.layer", "lm_head.dense",
                        "lm_head.layer_norm",  "lm_head.bias",          "lm_head.decoder",
                        "classifier.dense",    "classifier.out_proj",   "roberta.pooler.dense"};

Model make_encoder(const TransformerShape& shape, const Names& names) {
  Family family;
  family.table = names.embeddings + "word_embeddings.weight";
  if (!shape.tie_embeddings) family.head_table = names.decoder + ".weight";
  family.head_bias = shape.tie_embeddings ? names.bias : names.decoder + ".bias";
  family.positions = {{names.embeddings + "position_embeddings.weight", shape.position_rows(),
                       static_cast<int>(shape.sequence), kInitialDeviation, shape.first_position},
                      {names.embeddings + "token_type_embeddings.weight", shape.token_types, 1, kInitialDeviation, 0,
                       compiler::RowField::token_type}};
  family.embedding_norm = [&names](GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& own) {
    return graph.dropout(norm(graph, weights, x, own, names.embeddings + "LayerNorm"), own.dropout, own.rows_shard());
  };
  family.block = block;
  family.head = [&names](GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& own) {
    const ValueId dense = linear(graph, weights, x, names.dense, own.hidden, own.hidden);
    // RoBERTa's is exact whatever the blocks compute.
    const ValueId activated = &names == &kRoberta ? graph.gelu(dense, /*exact=*/true) : gelu(graph, dense, own);
    return norm(graph, weights, activated, own, names.norm);
  };
  // BERT's pooler; RoBERTa's head of documents drops its input out, too. That of tokens has no such layer, and that of
  // choices the base model's pooler.
  const bool of_tokens = shape.head_kind == HeadKind::tokens, of_choices = shape.head_kind == HeadKind::choice;
  const bool drops = &names == &kRoberta && !of_choices;
  const std::string& pooler = of_choices ? names.base_pooler : names.pooler;
  family.classifier.features = [pooler, of_tokens, drops](GraphBuilder& graph, LayerWeights& weights, ValueId x,
                                                          const TransformerShape& own) {
    if (drops || of_tokens) x = graph.dropout(x, own.dropout);
    if (of_tokens) return x;
    const ValueId dense = linear(graph, weights, x, pooler, own.hidden, own.hidden);
    return graph.dropout(graph.tanh(dense), own.dropout);
  };
  const std::string last = of_tokens || of_choices ? "classifier" : names.classifier;
  family.classifier.weight = last + ".weight";
  family.classifier.bias = last + ".bias";
  family.classifier.group = "classifier";
  family.causal = false;
  family.table_group = names.embeddings + "word_embeddings";
  family.positions_group = names.embeddings + "positions";
  family.head_group = names.dense.substr(0, names.dense.rfind('.'));
  family.blocks = names.blocks;
  return assemble(shape, family);
}

}  // namespace

Model make_bert(const TransformerShape& shape) { return make_encoder(shape, kBert); }

Model make_roberta(const TransformerShape& shape) { return make_encoder(shape, kRoberta); }

}  // namespace l2l::models
