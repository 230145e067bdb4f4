#include "models/vocabulary_chunks.h"

#include <algorithm>
#include <optional>

#include "compiler/autodiff/differentiate.h"
#include "l2l/errors.h"

namespace l2l::models {
namespace {

using compiler::Graph;
using compiler::GraphBuilder;
using compiler::Op;
using compiler::OpKind;
using compiler::Region;
using compiler::Value;
using compiler::ValueId;

constexpr std::int64_t kStatistics = 3;  // numbers per row
constexpr Bytes kCarryAlignment = 64;

// Builds a graph of a head's chunk from the operands that several of its graphs share.
class HeadChunk {
 public:
  HeadChunk(std::string name, const VocabularyChunks& chunks, std::int64_t tokens)
      : graph(std::move(name)), shape_(chunks.shape), bias_(chunks.bias), tokens_(tokens) {}

  GraphBuilder graph;

  ValueId normed(std::int64_t rows) {
    return graph.bound(Region::normed, "normed", shape_.compute, {rows, shape_.hidden});
  }
  ValueId table() { return graph.bound(Region::weights, "table", shape_.compute, {tokens_, shape_.hidden}); }
  // `inputs`, followed by the bias if there is one.
  std::vector<ValueId> with_bias(std::vector<ValueId> inputs) {
    if (bias_) inputs.push_back(behind_table(Region::weights, "bias", shape_.compute));
    return inputs;
  }
  // Of the table and the bias, as far as they are trained.
  std::vector<ValueId> gradients(HeadTraining trained) {
    std::vector<ValueId> all;
    if (trained.table) {
      all.push_back(graph.bound(Region::gradients, "d table", DType::f32, {tokens_, shape_.hidden}));
    }
    if (trained.bias && !trained.table) {
      throw BadInput("optimizer.train names the head's bias but not its table: name both, or neither");
    }
    if (trained.bias) all.push_back(behind_table(Region::gradients, "d bias", DType::f32));
    return all;
  }
  ValueId targets() { return graph.bound(Region::targets, "targets", DType::i32, {shape_.rows()}); }
  ValueId gradient_sums() { return graph.bound(Region::carry, "d normed", DType::f32, {shape_.rows(), shape_.hidden}); }
  ValueId statistics() {
    const Bytes sums = static_cast<Bytes>(shape_.rows() * shape_.hidden) * size_of(DType::f32);
    return graph.bound(Region::carry, "statistics", DType::f64, {shape_.rows(), kStatistics},
                       align_up(sums, kCarryAlignment));
  }

 private:
  ValueId behind_table(Region region, const char* name, DType dtype) {
    const Bytes table = align_up(static_cast<Bytes>(tokens_ * shape_.hidden), ParameterList::kAlignment);
    return graph.bound(region, name, dtype, {tokens_}, table * size_of(dtype));
  }

  const TransformerShape& shape_;
  const bool bias_;
  const std::int64_t tokens_;
};

ValueId rows_so_far(GraphBuilder& graph, const TransformerShape& shape) {
  return graph.bound(Region::carry, "rows", shape.compute, {shape.rows(), shape.hidden});
}

// Where the gradient of the weight at element `begin` lies; nothing where it is frozen.
std::optional<std::int64_t> gradient_place(const Graph& graph, std::int64_t begin) {
  if (!graph.gradient_ranges) return begin;
  for (const GradientRange& range : *graph.gradient_ranges) {
    if (begin >= range.begin && begin < range.begin + range.elements) return range.gradient + begin - range.begin;
  }
  return std::nullopt;
}

// The gradient of the embedding's sum, before its dropout.
ValueId sum_gradient(GraphBuilder& graph, const VocabularyChunks& chunks) {
  return graph.dropout(read_output_gradient(graph, chunks.shape), chunks.dropout);
}

}  // namespace

LayerType embedding_chunk(const VocabularyChunks& chunks, std::int64_t tokens, bool last) {
  const TransformerShape& shape = chunks.shape;
  GraphBuilder forward("embedding chunk"), backward("embedding chunk backward");
  const ValueId ids = forward.bound(Region::tokens, "tokens", DType::i32, {shape.rows()});
  const ValueId table = forward.bound(Region::weights, "table", shape.compute, {tokens, shape.hidden});
  const ValueId rows = rows_so_far(forward, shape);
  forward.append_onto(OpKind::embedding_rows, {ids, table}, {rows},
                      {.factor = chunks.factor, .vocabulary = shape.vocabulary});
  if (last && shape.streams()) write_output(forward, shape, rows);

  const ValueId same_ids = backward.bound(Region::tokens, "tokens", DType::i32, {shape.rows()});
  const ValueId gradient = backward.bound(Region::gradients, "d table", DType::f32, {tokens, shape.hidden});
  backward.append_onto(OpKind::embedding_rows_backward, {same_ids, sum_gradient(backward, chunks)}, {gradient},
                       {.factor = chunks.factor});
  return {forward.finish(), backward.finish(), {}};
}

Graph positions_graph(const VocabularyChunks& chunks, const std::vector<PositionTable>& positions,
                      ParameterList& list) {
  const TransformerShape& shape = chunks.shape;
  GraphBuilder graph("positions");
  LayerWeights weights(graph, list, shape.compute);
  ValueId sum = rows_so_far(graph, shape);
  for (const PositionTable& p : positions) {
    const ValueId places = weights.rows_from(p.name, p.rows, p.first, shape.hidden, p.deviation);
    sum = graph.add_positions(sum, places, p.sequence, read_rows(graph, shape, p.field));
  }
  write_output(graph, shape, graph.dropout(sum, chunks.dropout));
  return graph.finish();
}

// Each table, a parameter of its own, is trained or frozen.
Graph positions_backward(const VocabularyChunks& chunks, const std::vector<PositionTable>& positions,
                         const Graph& forward) {
  const TransformerShape& shape = chunks.shape;
  GraphBuilder graph("positions backward");
  const ValueId dsum = sum_gradient(graph, chunks);
  auto table = forward.values.begin();
  for (const PositionTable& p : positions) {
    table = std::find_if(table, forward.values.end(), [](const Value& v) { return v.region == Region::weights; });
    const auto begin = static_cast<std::int64_t>((table++)->offset / size_of(shape.compute));
    const std::optional<std::int64_t> place = gradient_place(forward, begin);
    if (!place) continue;
    const ValueId gradient = graph.bound(Region::gradients, "d " + p.name, DType::f32, {p.rows - p.first, shape.hidden},
                                         static_cast<Bytes>(*place) * size_of(DType::f32));
    std::vector<ValueId> inputs{dsum};
    if (const auto of_rows = read_rows(graph, shape, p.field)) inputs.push_back(*of_rows);
    graph.append_onto(OpKind::positions_backward, std::move(inputs), {gradient}, {.sequence = p.sequence});
  }
  return graph.finish();
}

LayerType head_norm(const TransformerShape& shape, Graph norm, Graph row) {
  Graph backward = compiler::differentiate(norm);
  for (ValueId id = 0; id < static_cast<ValueId>(backward.values.size()); ++id) {
    Value& gradient = backward.values[static_cast<std::size_t>(id)];
    if (gradient.region != Region::output_gradient) continue;
    gradient.region = Region::scratch;
    const auto sums = static_cast<ValueId>(backward.values.size());
    backward.values.push_back({"d normed", DType::f32, {shape.rows(), shape.hidden}, Region::carry});
    backward.ops.insert(backward.ops.begin(), Op{OpKind::convert, {sums}, {id}, {}});
    break;
  }
  backward.validate();
  return {std::move(norm), std::move(backward), std::move(row)};
}

LayerType head_chunk(const VocabularyChunks& chunks, std::int64_t tokens, HeadTraining trained, bool last) {
  const std::int64_t rows = chunks.shape.rows();
  HeadChunk forward("head chunk", chunks, tokens), backward("head chunk backward", chunks, tokens);
  const ValueId statistics = forward.statistics(), targets = forward.targets();
  forward.graph.append_onto(OpKind::softmax_statistics,
                            forward.with_bias({forward.normed(rows), forward.table(), targets}), {statistics},
                            {.softcap = chunks.shape.logit_softcap, .vocabulary = chunks.shape.vocabulary});
  if (last) forward.graph.place(forward.graph.cross_entropy(statistics, targets), Region::loss);

  std::vector<ValueId> outputs = backward.gradients(trained);
  outputs.insert(outputs.begin(), backward.gradient_sums());
  backward.graph.append_onto(
      OpKind::chunk_cross_entropy_backward,
      backward.with_bias({backward.normed(rows), backward.table(), backward.targets(), backward.statistics()}),
      std::move(outputs), {.softcap = chunks.shape.logit_softcap});
  LayerType type{forward.graph.finish(), backward.graph.finish(), {}};

  HeadChunk row("head chunk logits", chunks, tokens);
  const std::vector<ValueId> operands = row.with_bias({row.normed(chunks.shape.logit_rows()), row.table()});
  const std::optional<ValueId> bias = operands.size() > 2 ? std::optional(operands[2]) : std::nullopt;
  row.graph.place(row.graph.linear_transposed(operands[0], operands[1], bias), Region::output);
  type.logits = row.graph.finish();
  return type;
}

}  // namespace l2l::models
