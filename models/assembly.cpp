#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/autodiff/differentiate.h"
#include "models/family.h"
#include "models/streams.h"

namespace l2l::models {
namespace {

using compiler::Graph;
using compiler::GraphBuilder;
using compiler::Region;
using compiler::ValueId;

// Stable ids of groups and layers. Those of blocks begin at 16, to leave room for other layers.
constexpr std::uint32_t kTableId = 0, kPositionsId = 1, kHeadId = 2, kEmbeddingNormId = 3, kHeadBiasId = 4,
                        kHeadTableId = 5, kClassifierId = 6, kFirstBlockId = 16;

std::int64_t aligned(std::int64_t elements) {
  return static_cast<std::int64_t>(align_up(static_cast<Bytes>(elements), ParameterList::kAlignment));
}

// A layer that is one part, from Region::input to Region::output. `rows`: those of a microbatch, or 1.
Graph layer_graph(const char* name, const TransformerShape& shape, const Family::Part& part, std::int64_t rows,
                  ParameterList& list) {
  GraphBuilder graph(name);
  LayerWeights weights(graph, list, shape.compute);
  graph.place(part(graph, weights, read_input(graph, shape, rows), shape), Region::output);
  return graph.finish();
}

// y1 = x1 + F(x2), y2 = x2 + G(y1), for the branches F and G.
Graph reversible_graph(const TransformerShape& shape, const Family& family, ParameterList& list) {
  GraphBuilder graph("block");
  LayerWeights weights(graph, list, shape.compute);
  StreamIds streams = read_streams(graph, shape, shape.rows());
  std::size_t to = 0;
  for (const Family::Part& branch : family.branches) {
    const ValueId from = graph.read_stream(streams[1 - to], shape.compute);
    streams[to] = graph.reversible_add(streams[to], branch(graph, weights, from, shape));
    to = 1 - to;
  }
  write_streams(graph, shape, streams);
  return graph.finish();
}

Graph block_graph(const TransformerShape& shape, const Family& family, ParameterList& list) {
  if (shape.streams()) return reversible_graph(shape, family, list);
  const Family::Part chain = [&](GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape&) {
    for (const Family::Part& branch : family.branches) x = graph.add(x, branch(graph, weights, x, shape));
    return x;
  };
  return layer_graph("block", shape, family.branches.empty() ? family.block : chain, shape.rows(), list);
}

LayerType layer_type(Graph forward) {
  Graph backward = compiler::differentiate(forward);
  return {std::move(forward), std::move(backward), {}};
}

bool rebuilds(const TransformerShape& shape) { return shape.streams() && !shape.keeps_inputs; }

LayerType block_type(const TransformerShape& shape, const Family& family, ParameterList& list) {
  Graph forward = block_graph(shape, family, list);
  if (shape.cache > 0) return {std::move(forward), {}, {}};
  if (!rebuilds(shape)) return layer_type(std::move(forward));
  Graph backward = compiler::differentiate_reversible(forward);
  return {std::move(forward), std::move(backward), {}};
}

// The type of blocks that do not slide and of those that do, either without graphs where there are none. All have the
// same parameters.
std::vector<LayerType> block_types(const TransformerShape& shape, const Family& family, ParameterList& list) {
  std::vector<LayerType> types(2);
  for (const bool slides : {false, true}) {
    TransformerShape own = shape;
    own.sliding = {slides};
    bool used = false;
    for (std::int64_t i = 0; i < shape.layers && !used; ++i) used = shape.slides(i) == slides;
    if (!used) continue;
    list = {};
    types[slides] = block_type(own, family, list);
  }
  return types;
}

// A group of one parameter: a table that several layers use, or that travels in chunks.
GroupSpec single(const std::string& group, std::uint32_t id, const std::string& name, Shape shape, Initial initial) {
  ParameterList list;
  list.add({{name, shape}}, initial, initial == Initial::normal ? kInitialDeviation : 0);
  return list.group(group, id);
}

// Rows of the table that travel at once: all, unless the table is larger than a block.
std::int64_t chunk_rows(const TransformerShape& shape, std::int64_t block_elements) {
  std::int64_t rows = shape.vocabulary;
  if (shape.vocabulary_chunk > 0) {
    rows = shape.vocabulary_chunk;
  } else if (shape.vocabulary * shape.hidden > block_elements) {
    rows = block_elements / shape.hidden - ParameterList::kAlignment + 1;
  }
  return std::min(aligned(std::max<std::int64_t>(rows, 1)), shape.vocabulary);
}

// Builds a model layer by layer, from the embedding to the head.
class Assembly {
 public:
  Assembly(const TransformerShape& shape, const Family& family);
  Model finish() &&;

 private:
  void add_tables();
  void add_embedding();
  void add_embedding_chunks();
  void add_embedding_norm();
  void add_blocks();
  void add_head();
  void add_head_chunks();
  void add_classifier();
  Graph embedding_graph(ParameterList& positions) const;
  Graph head_graph(ParameterList& list) const;
  Graph classifier_graph(bool single, ParameterList& list) const;
  Graph logits_graph() const;
  ValueId head_table(LayerWeights& weights, const ParameterList& list) const;
  std::optional<ValueId> head_bias(LayerWeights& weights, const ParameterList& list) const;

  bool chunked() const { return chunks_.count() > 1; }
  GroupIndex add(GroupSpec group);
  int add(LayerType type);
  void add_layer(int type, std::string name, std::uint32_t id, std::vector<LayerPart> parts);
  template <typename PartsOf>
  void add_chunks(LayerType each, LayerType last, const std::string& name, std::uint32_t id, PartsOf parts_of);

  const TransformerShape& shape_;
  const Family& family_;
  ParameterList block_;
  std::vector<LayerType> block_types_;  // blocks that do not slide, and those that do
  const VocabularyChunks chunks_;
  GroupIndex table_ = 0, head_table_ = 0, head_bias_ = -1;
  Model model_;
};

Assembly::Assembly(const TransformerShape& shape, const Family& family)
    : shape_(shape),
      family_(family),
      block_types_(block_types(shape, family, block_)),
      chunks_{shape, chunk_rows(shape, block_.elements()), family.embedding_dropout, family.embedding_factor,
              !family.head_bias.empty()} {
  model_.rows = shape.rows();
  model_.hidden = shape.hidden;
  model_.vocabulary = shape.vocabulary;
  model_.labels = shape.labels;
  model_.compute = shape.compute;
  model_.causal = family.causal;
  model_.packed = shape.packed;
  model_.logit_softcap = shape.labels > 0 ? 0 : shape.logit_softcap;
  model_.reversible = shape.reversible;
  model_.rebuilds = rebuilds(shape);
  if (chunked()) model_.chunks = {chunks_.count(), chunks_.rows};
}

Model Assembly::finish() && {
  add_tables();
  chunked() ? add_embedding_chunks() : add_embedding();
  model_.embedding_layers = model_.layers();
  if (model_.drifts()) measure_drift(model_.types.back().backward, shape_);
  if (family_.embedding_norm) add_embedding_norm();
  add_blocks();
  const int before_head = model_.layers();
  if (shape_.labels > 0) {
    add_classifier();
  } else {
    chunked() ? add_head_chunks() : add_head();
  }
  model_.head_layers = model_.layers() - before_head;
  return std::move(model_);
}

// A tied table is a group of its own, with two uses.
void Assembly::add_tables() {
  const Shape table{shape_.vocabulary, shape_.hidden};
  head_table_ = table_ = add(single(family_.table_group, kTableId, family_.table, table, Initial::normal));
  if (shape_.labels > 0) return;
  if (!family_.head_table.empty()) {
    head_table_ = add(single(family_.head_table, kHeadTableId, family_.head_table, table, Initial::normal));
  }
  if (!family_.head_bias.empty()) {
    head_bias_ = add(single(family_.head_bias, kHeadBiasId, family_.head_bias, {shape_.vocabulary}, Initial::zeros));
  }
}

// y = dropout(table[token] + positions[place] + ...). The wire is [table, positions].
Graph Assembly::embedding_graph(ParameterList& positions) const {
  GraphBuilder graph("embedding");
  LayerWeights weights(graph, positions, shape_.compute, aligned(shape_.vocabulary * shape_.hidden));
  const ValueId tokens = graph.bound(Region::tokens, "tokens", DType::i32, {shape_.rows()});
  const ValueId table = weights.borrowed(family_.table, {shape_.vocabulary, shape_.hidden}, 0);
  ValueId sum = -1;
  for (const PositionTable& p : family_.positions) {
    const ValueId places = weights.rows_from(p.name, p.rows, p.first, shape_.hidden, p.deviation);
    const std::optional<ValueId> of_rows = read_rows(graph, shape_, p.field);
    sum = sum < 0 ? graph.embedding(tokens, table, places, p.sequence, of_rows)
                  : graph.add_positions(sum, places, p.sequence, of_rows);
  }
  write_output(graph, shape_, graph.dropout(sum, family_.embedding_dropout));
  return graph.finish();
}

void Assembly::add_embedding() {
  if (family_.positions.empty()) {
    const int type = add(embedding_chunk(chunks_, shape_.vocabulary, /*last=*/true));
    add_layer(type, "embedding", kTableId, {{table_}});
    return;
  }
  ParameterList positions;
  const int type = add(layer_type(embedding_graph(positions)));
  add_layer(type, "embedding", kTableId, {{table_}, {add(positions.group(family_.positions_group, kPositionsId))}});
}

void Assembly::add_embedding_chunks() {
  add_chunks(embedding_chunk(chunks_, chunks_.rows, /*last=*/false),
             embedding_chunk(chunks_, chunks_.tokens(chunks_.count() - 1), /*last=*/family_.positions.empty()),
             "embedding", kTableId, [&](int chunk) { return std::vector{chunks_.part(table_, chunk, shape_.hidden)}; });
  if (family_.positions.empty()) return;
  ParameterList positions;
  const int type = add(positions_layer(chunks_, family_.positions, positions));
  add_layer(type, "embedding.positions", kTableId, {{add(positions.group(family_.positions_group, kPositionsId))}});
}

void Assembly::add_embedding_norm() {
  ParameterList norm;
  const int type = add(layer_type(layer_graph("embedding norm", shape_, family_.embedding_norm, shape_.rows(), norm)));
  add_layer(type, "embedding.norm", kEmbeddingNormId, {{add(norm.group("embedding.norm", kEmbeddingNormId))}});
}

void Assembly::add_blocks() {
  int types[] = {-1, -1};  // of block_types_ in the model
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(shape_.layers); ++i) {
    const bool slides = shape_.slides(i);
    if (types[slides] < 0) types[slides] = add(std::move(block_types_[slides]));
    const std::string name = family_.blocks + "." + std::to_string(i);
    add_layer(types[slides], name, kFirstBlockId + i, {{add(block_.group(name, kFirstBlockId + i, name + "."))}});
  }
}

// The head's wire is [its own parameters, table, bias].
ValueId Assembly::head_table(LayerWeights& weights, const ParameterList& list) const {
  const std::string& name = family_.head_table.empty() ? family_.table : family_.head_table;
  return weights.borrowed(name, {shape_.vocabulary, shape_.hidden}, list.elements());
}

std::optional<ValueId> Assembly::head_bias(LayerWeights& weights, const ParameterList& list) const {
  if (family_.head_bias.empty()) return std::nullopt;
  return weights.borrowed(family_.head_bias, {shape_.vocabulary},
                          list.elements() + aligned(shape_.vocabulary * shape_.hidden));
}

Graph Assembly::head_graph(ParameterList& list) const {
  GraphBuilder graph("head");
  LayerWeights weights(graph, list, shape_.compute);
  const ValueId x = read_input(graph, shape_, shape_.rows());
  const ValueId normed = family_.head(graph, weights, x, shape_), table = head_table(weights, list);
  const ValueId targets = graph.bound(Region::targets, "targets", DType::i32, {shape_.rows()});
  const std::optional<ValueId> bias = head_bias(weights, list);
  graph.place(graph.linear_cross_entropy(normed, table, targets, bias, shape_.logit_softcap), Region::loss);
  return graph.finish();
}

Graph Assembly::logits_graph() const {
  GraphBuilder graph("logits");
  ParameterList list;
  LayerWeights weights(graph, list, shape_.compute);
  const ValueId x = read_input(graph, shape_, shape_.logit_rows());
  const ValueId normed = family_.head(graph, weights, x, shape_), table = head_table(weights, list);
  graph.place(graph.linear_transposed(normed, table, head_bias(weights, list)), Region::output);
  return graph.finish();
}

void Assembly::add_head() {
  ParameterList list;
  LayerType type = layer_type(head_graph(list));
  type.logits = logits_graph();
  std::vector<LayerPart> parts = {{add(list.group(family_.head_group, kHeadId))}, {head_table_}};
  if (head_bias_ >= 0) parts.push_back({head_bias_});
  add_layer(add(std::move(type)), "head", kHeadId, std::move(parts));
}

void Assembly::add_head_chunks() {
  ParameterList list, unused;
  Graph rows = layer_graph("final norm", shape_, family_.head, shape_.rows(), list);
  Graph row = layer_graph("final norm", shape_, family_.head, shape_.logit_rows(), unused);
  const int norm = add(head_norm(shape_, std::move(rows), std::move(row)));
  add_layer(norm, "head.norm", kHeadId, {{add(list.group(family_.head_group, kHeadId))}});
  add_chunks(head_chunk(chunks_, chunks_.rows, /*last=*/false),
             head_chunk(chunks_, chunks_.tokens(chunks_.count() - 1), /*last=*/true), "head", kHeadId, [&](int chunk) {
               std::vector<LayerPart> parts = {chunks_.part(head_table_, chunk, shape_.hidden)};
               if (head_bias_ >= 0) parts.push_back(chunks_.part(head_bias_, chunk, 1));
               return parts;
             });
}

// With the loss of all rows, or the logits of a single one.
Graph Assembly::classifier_graph(bool single, ParameterList& list) const {
  const Classifier& classifier = family_.classifier;
  const std::int64_t rows = single ? 1 : shape_.rows();
  GraphBuilder graph(single ? "logits" : "head");
  LayerWeights weights(graph, list, shape_.compute);
  const ValueId features = classifier.features(graph, weights, read_input(graph, shape_, rows), shape_);
  const ValueId w = weights.matrix(classifier.weight, shape_.labels, shape_.hidden, kInitialDeviation);
  std::optional<ValueId> bias;
  if (!classifier.bias.empty()) bias = weights.vector(classifier.bias, shape_.labels, Initial::zeros);
  if (single) {
    graph.place(graph.linear_transposed(features, w, bias), Region::output);
  } else {
    const ValueId targets = graph.bound(Region::targets, "targets", DType::i32, {rows});
    graph.place(graph.linear_cross_entropy(features, w, targets, bias), Region::loss);
  }
  return graph.finish();
}

void Assembly::add_classifier() {
  ParameterList list, unused;
  LayerType type = layer_type(classifier_graph(/*single=*/false, list));
  type.logits = classifier_graph(/*single=*/true, unused);
  add_layer(add(std::move(type)), "head", kClassifierId, {{add(list.group(family_.classifier.group, kClassifierId))}});
}

GroupIndex Assembly::add(GroupSpec group) {
  model_.layout.groups.push_back(std::move(group));
  return static_cast<GroupIndex>(model_.layout.groups.size() - 1);
}

int Assembly::add(LayerType type) {
  model_.types.push_back(std::move(type));
  return static_cast<int>(model_.types.size() - 1);
}

// Parts lie one behind the other in the wire.
void Assembly::add_layer(int type, std::string name, std::uint32_t id, std::vector<LayerPart> parts) {
  std::int64_t end = 0;
  for (LayerPart& part : parts) {
    part.offset = end;
    end += model_.layout.elements_of(part);
  }
  model_.layout.layers.push_back({std::move(name), id, std::move(parts), end});
  model_.type_of.push_back(type);
}

// A layer for each chunk of the table: the types of all but the last chunk, and of the last, which may be smaller.
template <typename PartsOf>
void Assembly::add_chunks(LayerType each, LayerType last, const std::string& name, std::uint32_t id, PartsOf parts_of) {
  const int type = add(std::move(each)), last_type = add(std::move(last));
  for (int i = 0; i < chunks_.count(); ++i) {
    add_layer(i + 1 < chunks_.count() ? type : last_type, name + "." + std::to_string(i), id, parts_of(i));
  }
}

}  // namespace

Model assemble(const TransformerShape& shape, const Family& family) { return Assembly(shape, family).finish(); }

ValueId attend(GraphBuilder& graph, const TransformerShape& shape, ValueId qkv, const compiler::Attributes& attention) {
  const std::optional<ValueId> documents = read_rows(graph, shape, compiler::RowField::begin, 2);  // and the end
  if (shape.cache > 0) {
    compiler::Attributes cached = attention;
    cached.capacity = static_cast<int>(shape.cache);
    const Shape rows{shape.micro_batch * shape.cache, 2 * shape.keys()};
    const ValueId cache = graph.bound(Region::cache, "keys and values", shape.compute, rows);
    return graph.cached_attention(qkv, cached, *documents, cache);
  }
  return shape.core_attention ? graph.core_attention(qkv, attention, documents)
                              : graph.attention(qkv, attention, documents);
}

compiler::Attributes attention_attributes(const TransformerShape& shape) {
  const bool slides = shape.slides(0), local = slides && shape.local_theta > 0;
  return {.heads = static_cast<int>(shape.heads),
          .kv_heads = static_cast<int>(shape.kv_heads),
          .window = slides ? static_cast<int>(shape.window) : 0,
          .scale = shape.query_scale > 0 ? 1 / std::sqrt(shape.query_scale) : 0,
          .softcap = shape.attention_softcap,
          .sequence = static_cast<int>(shape.sequence),
          .positions = shape.cache > 0 ? static_cast<int>(shape.context) : 0,
          .rotary_base = local ? shape.local_theta : shape.rope_theta,
          .rotary_scaling = local ? compiler::RotaryScaling{} : shape.rope_scaling};
}

float residual_deviation(const TransformerShape& shape) {
  return kInitialDeviation / std::sqrt(2.0f * static_cast<float>(shape.layers));
}

}  // namespace l2l::models
