#include "models/gpt2.h"

#include <algorithm>
#include <cmath>

#include "device/graph/differentiate.h"
#include "models/parameter_list.h"
#include "models/vocabulary_chunks.h"

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

// The head's final norm over `rows` rows.
ValueId final_norm(GraphBuilder& graph, const Gpt2Shape& shape, std::int64_t rows, ParameterList& list) {
  LayerWeights weights(graph, list, shape.compute);
  const ValueId x = graph.bound(Region::input, "x", shape.compute, {rows, shape.hidden});
  const ValueId gain = weights.vector("ln_f.weight", shape.hidden, Initial::ones);
  return graph.layer_norm(x, gain, weights.vector("ln_f.bias", shape.hidden, Initial::zeros), kEpsilon);
}

Graph final_norm_graph(const Gpt2Shape& shape, std::int64_t rows, ParameterList& list) {
  GraphBuilder graph("final norm");
  graph.place(final_norm(graph, shape, rows, list), Region::output);
  return graph.finish();
}

// The head's wire is [ln_f, table].
ValueId head_table(GraphBuilder& graph, const Gpt2Shape& shape, ParameterList& list) {
  return LayerWeights(graph, list, shape.compute)
      .borrowed("wte.weight", {shape.vocabulary, shape.hidden}, list.elements());
}

Graph head_graph(const Gpt2Shape& shape, ParameterList& list) {
  GraphBuilder graph("head");
  const ValueId normed = final_norm(graph, shape, rows_of(shape), list);
  const ValueId targets = graph.bound(Region::targets, "targets", DType::i32, {rows_of(shape)});
  graph.place(graph.linear_cross_entropy(normed, head_table(graph, shape, list), targets), Region::loss);
  return graph.finish();
}

Graph logits_graph(const Gpt2Shape& shape) {
  GraphBuilder graph("logits");
  ParameterList unused;
  const ValueId normed = final_norm(graph, shape, 1, unused);
  graph.place(graph.linear_transposed(normed, head_table(graph, shape, unused)), Region::output);
  return graph.finish();
}

LayerType layer_type(Graph forward) {
  Graph backward = device::graph::differentiate(forward);
  return {std::move(forward), std::move(backward), {}};
}

// Rows of the table that travel at once: all, unless the table is larger than a block.
std::int64_t chunk_rows(const Gpt2Shape& shape, std::int64_t block_elements) {
  std::int64_t rows = shape.vocabulary;
  if (shape.vocabulary_chunk > 0) {
    rows = shape.vocabulary_chunk;
  } else if (shape.vocabulary * shape.hidden > block_elements) {
    rows = block_elements / shape.hidden - ParameterList::kAlignment + 1;
  }
  const auto aligned = align_up(static_cast<Bytes>(std::max<std::int64_t>(rows, 1)), ParameterList::kAlignment);
  return std::min(static_cast<std::int64_t>(aligned), shape.vocabulary);
}

// Stable ids: groups and layers of blocks count from 16, so that other layers can come later without moving them.
constexpr std::uint32_t kTableId = 0, kPositionsId = 1, kFinalNormId = 2, kFirstBlockId = 16;

// Puts a model together, layer by layer from the embedding up.
class Assembly {
 public:
  explicit Assembly(const Gpt2Shape& shape) {
    model_.rows = rows_of(shape);
    model_.hidden = shape.hidden;
    model_.vocabulary = shape.vocabulary;
    model_.compute = shape.compute;
  }

  GroupIndex add(GroupSpec group) {
    model_.layout.groups.push_back(std::move(group));
    return static_cast<GroupIndex>(model_.layout.groups.size() - 1);
  }
  int add(LayerType type) {
    model_.types.push_back(std::move(type));
    return static_cast<int>(model_.types.size() - 1);
  }
  void add_layer(int type, std::string name, std::uint32_t id, std::vector<LayerPart> parts) {
    std::int64_t end = 0;
    for (LayerPart& part : parts) {
      part.offset = end;
      end += model_.layout.elements_of(part);
    }
    model_.layout.layers.push_back({std::move(name), id, std::move(parts), end});
    model_.type_of.push_back(type);
  }
  // One layer per chunk of the table's group, [0, chunks): all but the last have type `whole`.
  void add_chunks(const VocabularyShape& shape, GroupIndex table, int whole, int rest, const std::string& name,
                  std::uint32_t id) {
    for (int i = 0; i < shape.chunks(); ++i) {
      const bool last = i + 1 == shape.chunks();
      const std::int64_t elements = shape.chunk * shape.hidden;
      add_layer(last ? rest : whole, name + "." + std::to_string(i), id,
                {{table, 0, i * elements, last ? 0 : elements}});
    }
  }

  Model model_;
};

void add_embedding(Assembly& assembly, const Gpt2Shape& shape, const VocabularyShape& vocabulary, GroupIndex table) {
  ParameterList positions;
  const auto add_positions = [&] { return assembly.add(positions.group("wpe", kPositionsId, "")); };
  if (vocabulary.chunk == vocabulary.vocabulary) {
    const int type = assembly.add(layer_type(embedding_graph(shape, table_parameters(shape).elements(), positions)));
    assembly.add_layer(type, "embedding", kTableId, {{table}, {add_positions()}});
    return;
  }
  const int whole = assembly.add(embedding_chunk(vocabulary, vocabulary.chunk));
  const int rest = assembly.add(embedding_chunk(vocabulary, vocabulary.tokens(vocabulary.chunks() - 1)));
  const int last = assembly.add(positions_layer(vocabulary, kDeviation / 2, positions));
  assembly.add_chunks(vocabulary, table, whole, rest, "embedding", kTableId);
  assembly.add_layer(last, "embedding.positions", kTableId, {{add_positions()}});
}

void add_blocks(Assembly& assembly, const Gpt2Shape& shape, LayerType type, const ParameterList& block) {
  const int index = assembly.add(std::move(type));
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(shape.layers); ++i) {
    const std::string name = "h." + std::to_string(i);
    assembly.add_layer(index, name, kFirstBlockId + i,
                       {{assembly.add(block.group(name, kFirstBlockId + i, name + "."))}});
  }
}

void add_head(Assembly& assembly, const Gpt2Shape& shape, const VocabularyShape& vocabulary, GroupIndex table) {
  ParameterList norm, unused;
  const auto add_norm = [&] { return assembly.add(norm.group("ln_f", kFinalNormId, "")); };
  if (vocabulary.chunk == vocabulary.vocabulary) {
    LayerType type = layer_type(head_graph(shape, norm));
    type.logits = logits_graph(shape);
    const int index = assembly.add(std::move(type));
    assembly.add_layer(index, "head", kFinalNormId, {{add_norm()}, {table}});
    return;
  }
  Graph rows = final_norm_graph(shape, rows_of(shape), norm);
  const int first = assembly.add(head_norm(vocabulary, std::move(rows), final_norm_graph(shape, 1, unused)));
  const int whole = assembly.add(head_chunk(vocabulary, vocabulary.chunk, /*last=*/false));
  const int rest = assembly.add(head_chunk(vocabulary, vocabulary.tokens(vocabulary.chunks() - 1), /*last=*/true));
  assembly.add_layer(first, "head.norm", kFinalNormId, {{add_norm()}});
  assembly.add_chunks(vocabulary, table, whole, rest, "head", kFinalNormId);
}

}  // namespace

Model make_gpt2(const Gpt2Shape& shape) {
  ParameterList block;
  LayerType block_type = layer_type(block_graph(shape, block));
  const VocabularyShape vocabulary{
      shape.vocabulary, shape.hidden, shape.sequence, rows_of(shape), chunk_rows(shape, block.elements()),
      shape.dropout,    shape.compute};
  Assembly assembly(shape);
  const GroupIndex table = assembly.add(table_parameters(shape).group("wte", kTableId, ""));
  add_embedding(assembly, shape, vocabulary, table);
  add_blocks(assembly, shape, std::move(block_type), block);
  add_head(assembly, shape, vocabulary, table);
  if (vocabulary.chunks() > 1) assembly.model_.chunks = {vocabulary.chunks(), vocabulary.chunk};
  return std::move(assembly.model_);
}

}  // namespace l2l::models
