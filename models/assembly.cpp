#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <fnmatch.h>

#include "compiler/autodiff/differentiate.h"
#include "l2l/errors.h"
#include "models/block_kinds.h"
#include "models/exchange.h"
#include "models/families.h"
#include "models/family.h"
#include "models/own_layers.h"
#include "models/split_layers.h"

namespace l2l::models {
namespace {

using compiler::Graph;
using compiler::GraphBuilder;
using compiler::Region;
using compiler::ValueId;

// Stable ids of groups and layers that are no blocks.
constexpr std::uint32_t kTableId = 0, kPositionsId = 1, kHeadId = 2, kEmbeddingNormId = 3, kHeadBiasId = 4,
                        kHeadTableId = 5, kClassifierId = 6;

std::int64_t aligned(std::int64_t elements) {
  return static_cast<std::int64_t>(align_up(static_cast<Bytes>(elements), ParameterList::kAlignment));
}

bool rebuilds(const TransformerShape& shape) { return shape.streams() && !shape.keeps_inputs; }

// A group of one parameter: a table that several layers use, or that travels in chunks. `tokens`: the rows of it that
// the device has.
GroupSpec single(const std::string& group, std::uint32_t id, const std::string& name, Shape shape, Initial initial,
                 TokenRange tokens) {
  ParameterList list;
  ParameterList::Parameter parameter{name, shape};
  if (tokens.count < shape[0]) {
    parameter.share = {shape, 0, {{tokens.first, tokens.count}}};
    parameter.shape = shape.rank() == 1 ? Shape{tokens.count} : Shape{tokens.count, shape[1]};
  }
  list.add({parameter}, initial, initial == Initial::normal ? kInitialDeviation : 0);
  return list.group(group, id);
}

// Rows of the table that travel at once: all, unless the table is larger than a block.
std::int64_t chunk_rows(const TransformerShape& shape, std::int64_t block_elements) {
  std::int64_t rows = shape.vocabulary;
  if (shape.split()) return rows;
  if (shape.vocabulary_chunk > 0) {
    rows = shape.vocabulary_chunk;
  } else if (shape.vocabulary * shape.hidden > block_elements) {
    rows = block_elements / shape.hidden - ParameterList::kAlignment + 1;
  }
  return std::min(aligned(std::max<std::int64_t>(rows, 1)), shape.vocabulary);
}

// Derives what belongs to a layer; what is refused then has its name.
template <typename Derive>
auto naming_layer(const std::string& name, const Derive& derive) {
  try {
    return derive();
  } catch (const BadInput& error) {
    throw BadInput(name + ": " + error.what(), error.place());
  }
}

// Builds a model layer by layer, from the embedding to the head.
class Assembly {
 public:
  Assembly(const TransformerShape& shape, const Family& family);
  Model finish() &&;

 private:
  void add_family_layers();
  void add_custom_layers();
  void add_tables();
  void add_embedding();
  void add_embedding_chunks();
  void add_embedding_norm();
  void add_blocks();
  void add_head();
  void add_head_chunks();
  void add_classifier();
  void add_inputs();
  void add_custom_head();
  Graph embedding_graph(ParameterList& positions) const;
  Graph head_graph(ParameterList& list) const;
  enum class Of : std::uint8_t { loss, evaluation, single_row };
  Graph classifier_graph(Of of, ParameterList& list) const;
  Graph logits_graph() const;
  ValueId head_table(LayerWeights& weights, const ParameterList& list) const;
  std::optional<ValueId> head_bias(LayerWeights& weights, const ParameterList& list) const;

  bool chunked() const { return chunks_.count() > 1; }
  GroupIndex add(GroupSpec group, bool trained = false);
  int add(LayerType type);
  std::vector<LayerPart> placed(std::vector<LayerPart> parts) const;
  LayerType layer_type(Graph forward, const std::vector<LayerPart>& parts) const;
  int block_type(std::size_t kind, const std::vector<LayerPart>& parts);
  bool trained(GroupIndex group) const {
    return model_.layout.groups[static_cast<std::size_t>(group)].gradient_elements() > 0;
  }
  LayerSpec layer_spec(std::string name, std::uint32_t id, std::vector<LayerPart> parts) const;
  void add_layer(int type, LayerSpec layer);
  void add_layer(int type, std::string name, std::uint32_t id, std::vector<LayerPart> parts);
  int number_of(const LayerEnds& ends);
  template <typename PartsOf>
  void add_chunks(LayerType each, LayerType last, const std::string& name, std::uint32_t id, PartsOf parts_of);

  const TransformerShape& shape_;
  const Family& family_;
  const Blocks blocks_;
  // Types of blocks so far: by kind, and by what of them is trained.
  std::vector<std::pair<std::size_t, int>> block_types_;  // kind, type
  const TokenRange tokens_;                               // of the tables
  const VocabularyChunks chunks_;
  std::vector<LayerEnds> numbered_;  // what lies between blocks, once each
  GroupIndex table_ = 0, head_table_ = 0, head_bias_ = -1;
  Model model_;
};

Assembly::Assembly(const TransformerShape& shape, const Family& family)
    : shape_(shape),
      family_(family),
      blocks_((check_split(shape), make_blocks(shape, family))),
      tokens_(own_tokens(shape)),
      chunks_{shape, chunk_rows(shape, blocks_.largest()), family.embedding_dropout, family.embedding_factor,
              !family.head_bias.empty()} {
  model_.rows = shape.rows();
  model_.hidden = shape.hidden;
  model_.vocabulary = shape.vocabulary;
  model_.labels = shape.labels;
  model_.head_kind = shape.head_kind;
  model_.compute = shape.compute;
  model_.causal = family.causal;
  model_.packed = shape.packed;
  model_.logit_softcap = shape.labels > 0 ? 0 : shape.logit_softcap;
  if (shape.head_kind != HeadKind::custom) model_.reversible = shape.reversible;
  if (chunked()) model_.chunks = {chunks_.count(), chunks_.rows};
  model_.largest_input = bytes_of(blocks_.last);
  for (const BlockKind& kind : blocks_.kinds) {
    model_.largest_input = std::max({model_.largest_input, bytes_of(kind.inputs), bytes_of(kind.outputs)});
  }
}

Model Assembly::finish() && {
  shape_.head_kind == HeadKind::custom ? add_custom_layers() : add_family_layers();
  model_.find_lowest_trained();
  if (shape_.reserve) exchange_blocks(model_, *shape_.reserve);
  const auto is_causal = [](const compiler::Op& op) { return op.attributes.causal; };
  for (const LayerType& type : model_.types) {  // a program's own layers may be others than the family's
    model_.causal = model_.causal && std::ranges::all_of(type.forward.ops, is_causal);
  }
  return std::move(model_);
}

void Assembly::add_custom_layers() {
  add_inputs();
  if (rebuilds(shape_)) model_.first_rebuilt = model_.block(1 + static_cast<int>(blocks_.first_reversible));
  add_blocks();
  add_custom_head();
  if (model_.layout.groups.empty()) throw BadInput("model.blocks: no layer has parameters: there is nothing to train");
}

void Assembly::add_family_layers() {
  add_tables();
  chunked() ? add_embedding_chunks() : add_embedding();
  model_.embedding_layers = model_.layers();
  if (rebuilds(shape_)) model_.first_rebuilt = model_.block(1);
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
}

// A tied table is a group of its own, with two uses.
void Assembly::add_tables() {
  const Shape table{shape_.vocabulary, shape_.hidden};
  head_table_ = table_ = add(single(family_.table_group, kTableId, family_.table, table, Initial::normal, tokens_));
  if (shape_.labels > 0) return;
  if (!family_.head_table.empty()) {
    head_table_ = add(single(family_.head_table, kHeadTableId, family_.head_table, table, Initial::normal, tokens_));
  }
  if (!family_.head_bias.empty()) {
    head_bias_ =
        add(single(family_.head_bias, kHeadBiasId, family_.head_bias, {shape_.vocabulary}, Initial::zeros, tokens_));
  }
}

// y = dropout(table[token] + positions[place] + ...). The wire is [table, positions].
Graph Assembly::embedding_graph(ParameterList& positions) const {
  GraphBuilder graph("embedding");
  LayerWeights weights(graph, positions, shape_.compute, aligned(tokens_.count * shape_.hidden));
  const ValueId tokens = graph.bound(Region::tokens, "tokens", DType::i32, {shape_.rows()});
  const ValueId table = weights.borrowed(family_.table, {tokens_.count, shape_.hidden}, 0);
  ValueId sum = shape_.split() ? look_up_rows(graph, tokens, table, family_.embedding_factor, shape_) : -1;
  for (const PositionTable& p : family_.positions) {
    const ValueId places = weights.rows_from(p.name, p.rows, p.first, shape_.hidden, p.deviation);
    const std::optional<ValueId> of_rows = read_rows(graph, shape_, p.field);
    sum = sum < 0 ? graph.embedding(tokens, table, places, p.sequence, of_rows)
                  : graph.add_positions(sum, places, p.sequence, of_rows, shape_.rows_shard());
  }
  write_output(graph, shape_, graph.dropout(sum, family_.embedding_dropout, shape_.rows_shard()));
  return graph.finish();
}

void Assembly::add_embedding() {
  if (family_.positions.empty() && !shape_.split()) {
    const int type = add(embedding_chunk(chunks_, shape_.vocabulary, /*last=*/true));
    add_layer(type, "embedding", kTableId, {{table_}});
    return;
  }
  ParameterList positions;
  Graph forward = embedding_graph(positions);
  std::vector<LayerPart> parts = {{table_}};
  if (positions.elements() > 0) parts.push_back({add(positions.group(family_.positions_group, kPositionsId))});
  add_layer(add(layer_type(std::move(forward), parts)), "embedding", kTableId, parts);
}

void Assembly::add_embedding_chunks() {
  add_chunks(embedding_chunk(chunks_, chunks_.rows, /*last=*/false),
             embedding_chunk(chunks_, chunks_.tokens(chunks_.count() - 1), /*last=*/family_.positions.empty()),
             "embedding", kTableId, [&](int chunk) { return std::vector{chunks_.part(table_, chunk, shape_.hidden)}; });
  if (family_.positions.empty()) return;
  ParameterList positions;
  Graph forward = positions_graph(chunks_, family_.positions, positions);
  const std::vector<LayerPart> parts = {{add(positions.group(family_.positions_group, kPositionsId))}};
  forward.gradient_ranges = model_.layout.gradient_ranges(parts);
  Graph backward = positions_backward(chunks_, family_.positions, forward);
  add_layer(add(LayerType{std::move(forward), std::move(backward), {}}), "embedding.positions", kTableId, parts);
}

void Assembly::add_embedding_norm() {
  ParameterList norm;
  Graph forward = layer_graph("embedding norm", shape_, family_.embedding_norm, shape_.own_rows(), norm);
  const std::vector<LayerPart> parts = {{add(norm.group("embedding.norm", kEmbeddingNormId))}};
  add_layer(add(layer_type(std::move(forward), parts)), "embedding.norm", kEmbeddingNormId, parts);
  model_.input_bytes.push_back(bytes_of(family_ends(shape_)));
}

void Assembly::add_blocks() {
  model_.exchange.first = model_.layers();
  model_.exchange.first_group = static_cast<GroupIndex>(model_.layout.groups.size());
  std::map<std::uint32_t, GroupIndex> groups;  // by owner
  for (std::size_t i = 0; i < blocks_.ids.size(); ++i) {
    const auto name_of = [&](std::uint32_t block) { return family_.blocks + "." + std::to_string(block); };
    const std::uint32_t owner = blocks_.owners[i];
    const auto [group, fresh] = groups.try_emplace(owner);
    const ParameterList& parameters = blocks_.kind(i).parameters;
    if (fresh && parameters.elements() > 0) {
      group->second = add(parameters.group(name_of(owner), kFirstBlockId + owner, name_of(owner) + "."));
    }
    std::vector<LayerPart> parts;
    if (parameters.elements() > 0) parts.push_back({group->second});
    const std::uint32_t block = blocks_.ids[i];
    const BlockKind& kind = blocks_.kind(i);
    const int type = naming_layer(name_of(block), [&] { return block_type(blocks_.kind_of[i], parts); });
    LayerSpec layer = layer_spec(name_of(block), kFirstBlockId + block, std::move(parts));
    if (shape_.reserve) {
      model_.exchange.candidates.push_back(
          {block, type, layer, bytes_of(kind.inputs), number_of(kind.inputs), number_of(kind.outputs)});
    }
    if (i >= blocks_.initial) continue;
    model_.exchange.initial.push_back(block);
    model_.input_bytes.push_back(bytes_of(kind.inputs));
    add_layer(type, std::move(layer));
  }
  model_.exchange.end_group = static_cast<GroupIndex>(model_.layout.groups.size());
  model_.input_bytes.push_back(bytes_of(blocks_.last));
  model_.exchange.input = number_of(blocks_.first);
  model_.exchange.output = number_of(blocks_.last);
}

// The same for what is alike.
int Assembly::number_of(const LayerEnds& ends) {
  const auto found = std::ranges::find(numbered_, ends);
  if (found != numbered_.end()) return static_cast<int>(found - numbered_.begin());
  numbered_.push_back(ends);
  std::string shapes;
  for (const LayerTensor& each : ends) shapes += (shapes.empty() ? "" : ", ") + each.shape.to_string();
  model_.exchange.shapes.push_back(shapes);
  return static_cast<int>(numbered_.size()) - 1;
}

int Assembly::block_type(std::size_t kind, const std::vector<LayerPart>& parts) {
  Graph forward = blocks_.kinds[kind].forward;
  forward.gradient_ranges = model_.layout.gradient_ranges(parts);
  for (const auto& [of, type] : block_types_) {
    const Graph& known = model_.types[static_cast<std::size_t>(type)].forward;
    if (of == kind && known.gradient_ranges == forward.gradient_ranges) return type;
  }
  Graph backward;  // none where texts are continued
  if (shape_.cache == 0) {
    if (rebuilds(shape_) && blocks_.kinds[kind].reversible) {
      backward = compiler::differentiate_reversible(forward);
    } else {
      forward = compiler::with_keepable_results(std::move(forward));
      backward = compiler::differentiate(forward);
    }
  }
  const int type = add(LayerType{std::move(forward), std::move(backward), {}});
  block_types_.emplace_back(kind, type);
  return type;
}

// The head's wire is [its own parameters, table, bias].
ValueId Assembly::head_table(LayerWeights& weights, const ParameterList& list) const {
  const std::string& name = family_.head_table.empty() ? family_.table : family_.head_table;
  return weights.borrowed(name, {tokens_.count, shape_.hidden}, list.elements());
}

std::optional<ValueId> Assembly::head_bias(LayerWeights& weights, const ParameterList& list) const {
  if (family_.head_bias.empty()) return std::nullopt;
  return weights.borrowed(family_.head_bias, {tokens_.count}, list.elements() + aligned(tokens_.count * shape_.hidden));
}

Graph Assembly::head_graph(ParameterList& list) const {
  GraphBuilder graph("head");
  LayerWeights weights(graph, list, shape_.compute);
  const ValueId x = read_input(graph, shape_, shape_.own_rows());
  const ValueId normed = gather_rows(graph, family_.head(graph, weights, x, shape_), shape_);
  const ValueId table = head_table(weights, list);
  const ValueId targets = graph.bound(Region::targets, "targets", DType::i32, {shape_.rows()});
  const std::optional<ValueId> bias = head_bias(weights, list);
  std::vector<ValueId> operands{normed, table, targets};
  if (bias) operands.push_back(*bias);
  compiler::Attributes attributes{.softcap = shape_.logit_softcap};
  if (shape_.split()) {
    attributes.first = tokens_.first;
    attributes.vocabulary = shape_.vocabulary;
    attributes.shard = shape_.shard;
  }
  graph.place(graph.apply(compiler::OpKind::linear_cross_entropy, std::move(operands), attributes), Region::loss);
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
  Graph forward = head_graph(list);
  std::vector<LayerPart> parts = {{add(list.group(family_.head_group, kHeadId))}, {head_table_}};
  if (head_bias_ >= 0) parts.push_back({head_bias_});
  LayerType type = layer_type(std::move(forward), parts);
  if (!shape_.split()) type.logits = logits_graph();
  add_layer(add(std::move(type)), "head", kHeadId, std::move(parts));
}

void Assembly::add_head_chunks() {
  ParameterList list, unused;
  Graph rows = layer_graph("final norm", shape_, family_.head, shape_.rows(), list);
  Graph row = layer_graph("final norm", shape_, family_.head, shape_.logit_rows(), unused);
  const std::vector<LayerPart> norm = {{add(list.group(family_.head_group, kHeadId))}};
  rows.gradient_ranges = model_.layout.gradient_ranges(norm);
  add_layer(add(head_norm(shape_, std::move(rows), std::move(row))), "head.norm", kHeadId, norm);
  const HeadTraining training{trained(head_table_), head_bias_ >= 0 && trained(head_bias_)};
  add_chunks(head_chunk(chunks_, chunks_.rows, training, /*last=*/false),
             head_chunk(chunks_, chunks_.tokens(chunks_.count() - 1), training, /*last=*/true), "head", kHeadId,
             [&](int chunk) {
               std::vector<LayerPart> parts = {chunks_.part(head_table_, chunk, shape_.hidden)};
               if (head_bias_ >= 0) parts.push_back(chunks_.part(head_bias_, chunk, 1));
               return parts;
             });
}

// The loss of all rows, with their logits in an evaluation; or the logits of a single row.
Graph Assembly::classifier_graph(Of of, ParameterList& list) const {
  const Classifier& classifier = family_.classifier;
  const std::int64_t rows = of == Of::single_row ? 1 : shape_.rows();
  GraphBuilder graph(of == Of::single_row ? "logits" : "head");
  LayerWeights weights(graph, list, shape_.compute);
  const ValueId features = classifier.features(graph, weights, read_input(graph, shape_, rows), shape_);
  const ValueId w = weights.matrix(classifier.weight, shape_.labels, shape_.hidden, kInitialDeviation);
  std::optional<ValueId> bias;
  if (!classifier.bias.empty()) bias = weights.vector(classifier.bias, shape_.labels, Initial::zeros);
  // Classes have a fused op of their own; other losses read the logits.
  const bool classes = shape_.head_kind == HeadKind::classification || shape_.head_kind == HeadKind::tokens;
  std::optional<ValueId> logits;
  if (of != Of::loss || !classes) logits = graph.linear_transposed(features, w, bias);
  if (of != Of::single_row) {
    const DType dtype = shape_.head_kind == HeadKind::regression ? DType::f32 : DType::i32;
    const ValueId targets = graph.bound(Region::targets, "targets", dtype, {rows});
    const ValueId loss = classes               ? graph.linear_cross_entropy(features, w, targets, bias)
                         : dtype == DType::f32 ? graph.squared_error(*logits, targets)
                                               : graph.choice_cross_entropy(*logits, targets);
    graph.place(loss, Region::loss);
  }
  if (of != Of::loss) graph.place(*logits, Region::output);
  return graph.finish();
}

void Assembly::add_classifier() {
  ParameterList list, same, unused;
  Graph forward = classifier_graph(Of::loss, list);
  GroupSpec group = list.group(family_.classifier.group, kClassifierId);
  // Nothing pretrained, so it is trained beside adapters.
  const bool with_adapters = shape_.lora.rank > 0;
  const std::vector<LayerPart> parts = {{add(std::move(group), with_adapters)}};
  LayerType type = layer_type(std::move(forward), parts);
  type.forward = classifier_graph(Of::evaluation, same);
  type.logits = classifier_graph(Of::single_row, unused);
  add_layer(add(std::move(type)), "head", kClassifierId, parts);
}

// A custom model begins with a layer that has no parameters and is not visited in the backward pass.
void Assembly::add_inputs() {
  const auto tensors = [](const std::vector<TensorSpec>& specs) {
    std::vector<SampleTensor> list;
    for (const TensorSpec& spec : specs) list.push_back({words_of(spec), spec.below, word_element(spec.element)});
    return list;
  };
  model_.inputs = tensors(shape_.inputs);
  model_.targets = tensors(shape_.targets);
  model_.targets.push_back({.words = 1, .below = 2});  // what read() returns
  add_layer(add(LayerType{inputs_graph(shape_), {}, {}}), "inputs", kTableId, {});
}

void Assembly::add_custom_head() {
  const Layer& layer = shape_.blocks.back();
  ParameterList list, same;
  const auto graph = [&](CustomHead kind, ParameterList& parameters) {
    return custom_head_graph(layer, shape_, blocks_.last, kind, parameters, model_.labels);
  };
  Graph forward = graph(CustomHead::loss, list);
  const std::string name = family_.blocks + "." + std::to_string(layer.id);
  const std::uint32_t id = kFirstBlockId + layer.id;
  std::vector<LayerPart> parts;
  if (list.elements() > 0) parts.push_back({add(list.group(name, id, name + "."))});
  LayerType type = naming_layer(name, [&] { return layer_type(std::move(forward), parts); });
  type.forward = graph(CustomHead::evaluation, same);
  add_layer(add(std::move(type)), name, id, parts);
}

// `trained`: whatever the shape says.
GroupIndex Assembly::add(GroupSpec group, bool trained) {
  for (ParameterSpec& parameter : group.parameters) parameter.trained = trained || shape_.trains(parameter.name);
  model_.layout.groups.push_back(std::move(group));
  return static_cast<GroupIndex>(model_.layout.groups.size() - 1);
}

int Assembly::add(LayerType type) {
  model_.types.push_back(std::move(type));
  return static_cast<int>(model_.types.size() - 1);
}

// Parts lie one behind the other in the wire.
std::vector<LayerPart> Assembly::placed(std::vector<LayerPart> parts) const {
  std::int64_t end = 0;
  for (LayerPart& part : parts) {
    part.offset = end;
    end += model_.layout.elements_of(part);
  }
  return parts;
}

// `parts`: those of the layer whose graph this is.
LayerType Assembly::layer_type(Graph forward, const std::vector<LayerPart>& parts) const {
  forward.gradient_ranges = model_.layout.gradient_ranges(placed(parts));
  Graph backward = compiler::differentiate(forward);
  return {std::move(forward), std::move(backward), {}};
}

LayerSpec Assembly::layer_spec(std::string name, std::uint32_t id, std::vector<LayerPart> parts) const {
  parts = placed(std::move(parts));
  const std::int64_t elements = parts.empty() ? 0 : parts.back().offset + model_.layout.elements_of(parts.back());
  return {std::move(name), id, std::move(parts), elements};
}

void Assembly::add_layer(int type, LayerSpec layer) {
  model_.layout.layers.push_back(std::move(layer));
  model_.type_of.push_back(type);
}

void Assembly::add_layer(int type, std::string name, std::uint32_t id, std::vector<LayerPart> parts) {
  add_layer(type, layer_spec(std::move(name), id, std::move(parts)));
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

bool matches(const std::string& name, const std::string& pattern) {
  return fnmatch(pattern.c_str(), name.c_str(), /*flags=*/0) == 0;
}

bool TransformerShape::trains(const std::string& parameter) const {
  if (lora.rank > 0 ? is_adapter(parameter) : train.empty()) return true;
  return std::ranges::any_of(train, [&](const std::string& each) { return matches(parameter, each); });
}

Model make_custom(const TransformerShape& shape) {
  Family family;
  family.blocks = "layers";
  family.causal = false;
  return assemble(shape, family);
}

Model assemble(const TransformerShape& shape, const Family& family) {
  Model model = Assembly(shape, family).finish();
  if (!shape.split()) return model;
  TransformerShape whole = shape;
  whole.shard = {};
  whole.vocabulary_chunk = shape.vocabulary;  // the table is one layer, as it is there
  model.shard = shape.shard;
  model.shares = std::exchange(model.layout, Assembly(whole, family).finish().layout);
  return model;
}

ValueId attend(GraphBuilder& graph, const TransformerShape& shape, ValueId qkv, const compiler::Attributes& attention) {
  const std::optional<ValueId> documents = read_rows(graph, shape, compiler::RowField::begin, 2);  // and the end
  if (shape.cache > 0) {
    compiler::Attributes cached = attention;
    cached.capacity = static_cast<int>(shape.cache);
    const std::int64_t heads = attention.heads, keys = compiler::kv_heads(attention);
    const std::int64_t head = graph.value(qkv).shape[1] / std::max<std::int64_t>(1, heads + 2 * keys);
    const Shape rows{shape.micro_batch * shape.cache, 2 * keys * head};
    const ValueId cache = graph.bound(Region::cache, "keys and values", shape.compute, rows,
                                      graph.region_bytes(Region::cache));  // each attention of a layer has its own
    return graph.cached_attention(qkv, cached, *documents, cache);
  }
  return shape.core_attention ? graph.core_attention(qkv, attention, documents)
                              : graph.attention(qkv, attention, documents);
}

Family::Part dropped_out(Family::Part part) {
  return
      [part = std::move(part)](GraphBuilder& graph, LayerWeights& weights, ValueId x, const TransformerShape& shape) {
        return graph.dropout(part(graph, weights, x, shape), shape.dropout);
      };
}

compiler::Attributes attention_attributes(const TransformerShape& shape) {
  const bool slides = shape.slides(0), local = slides && shape.local_theta > 0;
  return {.heads = static_cast<int>(shape.own_heads()),
          .kv_heads = static_cast<int>(shape.own_kv_heads()),
          .window = slides ? static_cast<int>(shape.window) : 0,
          .scale = shape.query_scale > 0 ? 1 / std::sqrt(shape.query_scale) : 0,
          .softcap = shape.attention_softcap,
          .sequence = static_cast<int>(shape.sequence),
          .positions = shape.cache > 0 ? static_cast<int>(shape.context) : 0,
          .rotary_base = local ? shape.local_theta : shape.rope_theta,
          .rotary_scaling = local ? compiler::RotaryScaling{} : shape.rope_scaling,
          .shard = shape.shard};
}

float residual_deviation(const TransformerShape& shape) {
  return kInitialDeviation / std::sqrt(2.0f * static_cast<float>(shape.layers));
}

}  // namespace l2l::models
