#include "models/streams.h"

namespace l2l::models {

using compiler::Graph;
using compiler::GraphBuilder;
using compiler::OpKind;
using compiler::Region;
using compiler::RowField;
using compiler::Value;
using compiler::ValueId;

StreamIds read_streams(GraphBuilder& graph, const TransformerShape& shape, std::int64_t rows) {
  const ValueId first = graph.bound(Region::input, "x1", shape.stream_type(), {rows, shape.hidden});
  return {first, graph.bound(Region::input, "x2", shape.stream_type(), {rows, shape.hidden}, shape.second_stream())};
}

void write_streams(GraphBuilder& graph, const TransformerShape& shape, StreamIds streams) {
  graph.place(streams[0], Region::output);
  graph.place(streams[1], Region::output, shape.second_stream());
}

ValueId read_input(GraphBuilder& graph, const TransformerShape& shape, std::int64_t rows) {
  if (!shape.streams()) return graph.bound(Region::input, "x", shape.compute, {rows, shape.hidden});
  const StreamIds streams = read_streams(graph, shape, rows);
  return graph.merge_streams(streams[0], streams[1], shape.compute);
}

void write_output(GraphBuilder& graph, const TransformerShape& shape, ValueId x) {
  if (!shape.streams()) return graph.place(x, Region::output);
  const auto [first, second] = graph.split_streams(x, shape.stream_type());
  write_streams(graph, shape, {first, second});
}

ValueId read_output_gradient(GraphBuilder& graph, const TransformerShape& shape) {
  const Shape rows{shape.rows(), shape.hidden};
  const ValueId first = graph.bound(Region::output_gradient, "dy", shape.compute, rows);
  if (!shape.streams()) return first;
  const Bytes offset = static_cast<Bytes>(rows.elements()) * size_of(shape.compute);
  return graph.add(first, graph.bound(Region::output_gradient, "dy2", shape.compute, rows, offset));
}

std::optional<ValueId> read_rows(GraphBuilder& graph, const TransformerShape& shape, RowField field,
                                 std::int64_t lines) {
  if (!shape.packed) return std::nullopt;
  const Bytes line = static_cast<Bytes>(shape.rows()) * size_of(DType::i32);
  const Shape of = lines == 1 ? Shape{shape.rows()} : Shape{lines, shape.rows()};
  return graph.bound(Region::rows, "rows", DType::i32, of, line * static_cast<Bytes>(field));
}

void write_single_documents(std::span<std::int32_t> fields, std::int64_t sequence) {
  const std::size_t rows = fields.size() / static_cast<std::size_t>(RowField::count);
  const auto line = [&](RowField field) { return fields.subspan(static_cast<std::size_t>(field) * rows, rows); };
  for (std::size_t row = 0; row < rows; ++row) {
    line(RowField::position)[row] = static_cast<std::int32_t>(row % static_cast<std::size_t>(sequence));
    line(RowField::begin)[row] = 0;
    line(RowField::end)[row] = static_cast<std::int32_t>(sequence);
    line(RowField::token_type)[row] = 0;
  }
}

void measure_drift(Graph& embedding_backward, const TransformerShape& shape) {
  std::vector<Value>& values = embedding_backward.values;
  const auto add = [&](std::string name, DType dtype, Shape of, Region region, Bytes offset) {
    values.push_back({std::move(name), dtype, of, region, offset});
    return static_cast<ValueId>(values.size() - 1);
  };
  const Shape rows{shape.rows(), shape.hidden};
  const auto scratch = [&](std::string name) { return add(std::move(name), DType::f32, rows, Region::scratch, 0); };
  const auto squares = [&](ValueId of, Bytes place) {
    const ValueId sum = add("squares", DType::f64, {1}, Region::loss, place * size_of(DType::f64));
    embedding_backward.ops.push_back({OpKind::convert, {of}, {scratch("copy"), sum}, {}});
  };
  const ValueId first = add("x1", DType::f32, rows, Region::input, 0);
  const ValueId second = add("x2", DType::f32, rows, Region::input, shape.second_stream());
  const ValueId difference = scratch("x1 - x2");
  embedding_backward.ops.push_back({OpKind::reversible_add, {first, second}, {difference}, {.inverse = true}});
  squares(difference, 1);
  squares(first, 2);
  embedding_backward.validate();
}

}  // namespace l2l::models
