#include "models/vocabulary_chunks.h"

#include "compiler/autodiff/differentiate.h"

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

// The operands of a head's chunk that more than one of its graphs has.
class HeadChunk {
 public:
  HeadChunk(std::string name, const VocabularyShape& shape, std::int64_t tokens)
      : graph(std::move(name)), shape_(shape), tokens_(tokens) {}

  GraphBuilder graph;

  ValueId normed(std::int64_t rows) {
    return graph.bound(Region::normed, "normed", shape_.compute, {rows, shape_.hidden});
  }
  ValueId table() { return graph.bound(Region::weights, "table", shape_.compute, {tokens_, shape_.hidden}); }
  // `inputs`, and the bias behind them if there is one.
  std::vector<ValueId> with_bias(std::vector<ValueId> inputs) {
    if (shape_.bias) {
      inputs.push_back(
          graph.bound(Region::weights, "bias", shape_.compute, {tokens_}, behind_table(size_of(shape_.compute))));
    }
    return inputs;
  }
  // Of the table, and of the bias if there is one.
  std::vector<ValueId> gradients() {
    std::vector<ValueId> all{graph.bound(Region::gradients, "d table", DType::f32, {tokens_, shape_.hidden})};
    if (shape_.bias) {
      all.push_back(graph.bound(Region::gradients, "d bias", DType::f32, {tokens_}, behind_table(size_of(DType::f32))));
    }
    return all;
  }
  ValueId targets() { return graph.bound(Region::targets, "targets", DType::i32, {shape_.rows}); }
  ValueId gradient_sums() { return graph.bound(Region::carry, "d normed", DType::f32, {shape_.rows, shape_.hidden}); }
  ValueId statistics() {
    const Bytes sums = static_cast<Bytes>(shape_.rows * shape_.hidden) * size_of(DType::f32);
    return graph.bound(Region::carry, "statistics", DType::f64, {shape_.rows, kStatistics},
                       align_up(sums, kCarryAlignment));
  }

 private:
  Bytes behind_table(Bytes element) const {
    return align_up(static_cast<Bytes>(tokens_ * shape_.hidden), ParameterList::kAlignment) * element;
  }

  const VocabularyShape& shape_;
  std::int64_t tokens_;
};

ValueId rows_so_far(GraphBuilder& graph, const VocabularyShape& shape) {
  return graph.bound(Region::carry, "rows", shape.compute, {shape.rows, shape.hidden});
}

// The gradient of the embedding's sum, before its dropout.
ValueId sum_gradient(GraphBuilder& graph, const VocabularyShape& shape) {
  return graph.dropout(read_output_gradient(graph, shape.boundary()), shape.dropout);
}

}  // namespace

LayerType embedding_chunk(const VocabularyShape& shape, std::int64_t tokens, bool last) {
  GraphBuilder forward("embedding chunk"), backward("embedding chunk backward");
  const ValueId ids = forward.bound(Region::tokens, "tokens", DType::i32, {shape.rows});
  const ValueId table = forward.bound(Region::weights, "table", shape.compute, {tokens, shape.hidden});
  const ValueId rows = rows_so_far(forward, shape);
  forward.append_onto(OpKind::embedding_rows, {ids, table}, {rows}, {.vocabulary = shape.vocabulary});
  if (last && shape.boundary().streams()) write_output(forward, shape.boundary(), rows);

  const ValueId same_ids = backward.bound(Region::tokens, "tokens", DType::i32, {shape.rows});
  const ValueId gradient = backward.bound(Region::gradients, "d table", DType::f32, {tokens, shape.hidden});
  backward.append_onto(OpKind::embedding_rows_backward, {same_ids, sum_gradient(backward, shape)}, {gradient}, {});
  return {forward.finish(), backward.finish(), {}};
}

LayerType positions_layer(const VocabularyShape& shape, const std::vector<PositionTable>& positions,
                          ParameterList& list) {
  GraphBuilder forward("positions"), backward("positions backward");
  LayerWeights weights(forward, list, shape.compute);
  ValueId sum = rows_so_far(forward, shape);
  const ValueId dsum = sum_gradient(backward, shape);
  for (const PositionTable& p : positions) {
    const Bytes offset = static_cast<Bytes>(list.elements()) * size_of(DType::f32);
    sum = forward.add_positions(sum, weights.matrix(p.name, p.rows, shape.hidden, p.deviation), p.sequence);
    const ValueId gradient =
        backward.bound(Region::gradients, "d " + p.name, DType::f32, {p.rows, shape.hidden}, offset);
    backward.append_onto(OpKind::positions_backward, {dsum}, {gradient}, {.sequence = p.sequence});
  }
  write_output(forward, shape.boundary(), forward.dropout(sum, shape.dropout));
  return {forward.finish(), backward.finish(), {}};
}

LayerType head_norm(const VocabularyShape& shape, Graph norm, Graph row) {
  Graph backward = compiler::differentiate(norm);
  for (ValueId id = 0; id < static_cast<ValueId>(backward.values.size()); ++id) {
    Value& gradient = backward.values[static_cast<std::size_t>(id)];
    if (gradient.region != Region::output_gradient) continue;
    gradient.region = Region::scratch;
    const auto sums = static_cast<ValueId>(backward.values.size());
    backward.values.push_back({"d normed", DType::f32, {shape.rows, shape.hidden}, Region::carry});
    backward.ops.insert(backward.ops.begin(), Op{OpKind::convert, {sums}, {id}, {}});
    break;
  }
  backward.validate();
  return {std::move(norm), std::move(backward), std::move(row)};
}

LayerType head_chunk(const VocabularyShape& shape, std::int64_t tokens, bool last) {
  HeadChunk up("head chunk", shape, tokens), down("head chunk backward", shape, tokens);
  const ValueId statistics = up.statistics(), targets = up.targets();
  up.graph.append_onto(OpKind::softmax_statistics, up.with_bias({up.normed(shape.rows), up.table(), targets}),
                       {statistics}, {.vocabulary = shape.vocabulary});
  if (last) up.graph.place(up.graph.cross_entropy(statistics, targets), Region::loss);

  std::vector<ValueId> outputs = down.gradients();
  outputs.insert(outputs.begin(), down.gradient_sums());
  down.graph.append_onto(OpKind::chunk_cross_entropy_backward,
                         down.with_bias({down.normed(shape.rows), down.table(), down.targets(), down.statistics()}),
                         std::move(outputs), {});
  LayerType type{up.graph.finish(), down.graph.finish(), {}};
  if (!shape.logits) return type;

  HeadChunk row("head chunk logits", shape, tokens);
  row.graph.place(row.graph.linear_transposed(row.normed(1), row.table()), Region::output);
  type.logits = row.graph.finish();
  return type;
}

}  // namespace l2l::models
