#include "models/gpt2.h"

#include <cmath>

#include "device/graph/differentiate.h"
#include "models/parameter_list.h"

namespace l2l::models {
namespace {

using device::graph::Graph;
using device::graph::GraphBuilder;
using device::graph::Region;
using device::graph::ValueId;

constexpr float kEpsilon = 1e-5f;    // of every norm
constexpr float kDeviation = 0.02f;  // of initial weights; residual projections are scaled by 1 / sqrt(2 N)

std::int64_t rows_of(const Gpt2Shape& shape) { return shape.micro_batch * shape.sequence; }

// The tied table is a group of its own, with two uses.
ParameterList table_parameters(const Gpt2Shape& shape) {
  ParameterList list;
  list.add("wte.weight", {shape.vocabulary, shape.hidden}, Initial::normal, kDeviation, /*decay=*/true);
  return list;
}

// y = dropout(table[token] + positions[place]). The wire is [table, positions].
Graph embedding_graph(const Gpt2Shape& shape, std::int64_t table_elements, ParameterList& positions) {
  GraphBuilder graph("embedding");
  LayerWeights weights(graph, positions, shape.compute, table_elements);
  const ValueId tokens = graph.bound(Region::tokens, "tokens", DType::i32, {rows_of(shape)});
  const ValueId table = weights.borrowed("wte.weight", {shape.vocabulary, shape.hidden}, 0);
  const ValueId places = weights.matrix("wpe.weight", shape.sequence, shape.hidden, kDeviation / 2);
  const ValueId sum = graph.embedding(tokens, table, places, static_cast<int>(shape.sequence));
  graph.place(graph.dropout(sum, shape.dropout), Region::output);
  return graph.finish();
}

// y = x + attention(norm(x)); z = y + mlp(norm(y)).
Graph block_graph(const Gpt2Shape& shape, ParameterList& list) {
  const std::int64_t hidden = shape.hidden, wide = shape.intermediate;
  const float residual = kDeviation / std::sqrt(2.0f * static_cast<float>(shape.layers));
  GraphBuilder graph("block");
  LayerWeights weights(graph, list, shape.compute);
  const auto norm = [&](ValueId x, const std::string& name) {
    const ValueId gain = weights.vector(name + ".weight", hidden, Initial::ones);
    return graph.layer_norm(x, gain, weights.vector(name + ".bias", hidden, Initial::zeros), kEpsilon);
  };
  const auto linear = [&](ValueId x, const std::string& name, std::int64_t in, std::int64_t out, float deviation) {
    const ValueId w = weights.matrix(name + ".weight", in, out, deviation);
    return graph.linear(x, w, weights.vector(name + ".bias", out, Initial::zeros));
  };

  const ValueId x = graph.bound(Region::input, "x", shape.compute, {rows_of(shape), hidden});
  const ValueId qkv = linear(norm(x, "ln_1"), "attn.c_attn", hidden, 3 * hidden, kDeviation);
  const ValueId mixed =
      graph.attention(qkv, static_cast<int>(shape.heads), static_cast<int>(shape.sequence), shape.dropout);
  const ValueId projected = linear(mixed, "attn.c_proj", hidden, hidden, residual);
  const ValueId y = graph.add(x, graph.dropout(projected, shape.dropout));
  const ValueId widened = graph.gelu(linear(norm(y, "ln_2"), "mlp.c_fc", hidden, wide, kDeviation));
  const ValueId narrowed = linear(widened, "mlp.c_proj", wide, hidden, residual);
  graph.place(graph.add(y, graph.dropout(narrowed, shape.dropout)), Region::output);
  return graph.finish();
}

// The head's final norm over `rows` rows; its wire is [ln_f, table].
struct HeadValues {
  ValueId normed, table;
};
HeadValues final_norm(GraphBuilder& graph, const Gpt2Shape& shape, std::int64_t rows, ParameterList& list) {
  LayerWeights weights(graph, list, shape.compute);
  const ValueId x = graph.bound(Region::input, "x", shape.compute, {rows, shape.hidden});
  const ValueId gain = weights.vector("ln_f.weight", shape.hidden, Initial::ones);
  const ValueId bias = weights.vector("ln_f.bias", shape.hidden, Initial::zeros);
  const ValueId table = weights.borrowed("wte.weight", {shape.vocabulary, shape.hidden}, list.elements());
  return {graph.layer_norm(x, gain, bias, kEpsilon), table};
}

Graph head_graph(const Gpt2Shape& shape, ParameterList& list) {
  GraphBuilder graph("head");
  const HeadValues head = final_norm(graph, shape, rows_of(shape), list);
  const ValueId targets = graph.bound(Region::targets, "targets", DType::i32, {rows_of(shape)});
  graph.place(graph.linear_cross_entropy(head.normed, head.table, targets), Region::loss);
  return graph.finish();
}

Graph logits_graph(const Gpt2Shape& shape) {
  GraphBuilder graph("logits");
  ParameterList unused;
  const HeadValues head = final_norm(graph, shape, 1, unused);
  graph.place(graph.linear_transposed(head.normed, head.table), Region::output);
  return graph.finish();
}

LayerType layer_type(Graph forward) {
  Graph backward = device::graph::differentiate(forward);
  return {std::move(forward), std::move(backward)};
}

// Stable ids: groups and layers of blocks count from 16, so that other layers can come later without moving them.
constexpr std::uint32_t kTableId = 0, kPositionsId = 1, kFinalNormId = 2, kFirstBlockId = 16;

}  // namespace

Model make_gpt2(const Gpt2Shape& shape) {
  const ParameterList table = table_parameters(shape);
  ParameterList positions, block, final_norm;
  Model model;
  model.types.push_back(layer_type(embedding_graph(shape, table.elements(), positions)));
  model.types.push_back(layer_type(block_graph(shape, block)));
  model.types.push_back(layer_type(head_graph(shape, final_norm)));
  model.logits = logits_graph(shape);
  model.rows = rows_of(shape);
  model.hidden = shape.hidden;
  model.vocabulary = shape.vocabulary;
  model.compute = shape.compute;

  ModelLayout& layout = model.layout;
  layout.groups.push_back(table.group("wte", kTableId, ""));
  layout.groups.push_back(positions.group("wpe", kPositionsId, ""));
  layout.layers.push_back(
      {"embedding", kTableId, {{0, 0}, {1, table.elements()}}, table.elements() + positions.elements()});
  model.type_of.push_back(0);
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(shape.layers); ++i) {
    const std::string name = "h." + std::to_string(i);
    layout.groups.push_back(block.group(name, kFirstBlockId + i, name + "."));
    const auto group = static_cast<GroupIndex>(layout.groups.size() - 1);
    layout.layers.push_back({name, kFirstBlockId + i, {{group, 0}}, block.elements()});
    model.type_of.push_back(1);
  }
  layout.groups.push_back(final_norm.group("ln_f", kFinalNormId, ""));
  const auto norm_group = static_cast<GroupIndex>(layout.groups.size() - 1);
  layout.layers.push_back(
      {"head", kFinalNormId, {{norm_group, 0}, {0, final_norm.elements()}}, final_norm.elements() + table.elements()});
  model.type_of.push_back(2);
  return model;
}

}  // namespace l2l::models
