#include <algorithm>
#include <utility>

#include "compiler/ir/graph.h"
#include "compiler/ir/op_check.h"
#include "compiler/ir/op_table.h"
#include "core/checked.h"

namespace l2l::compiler {
namespace {

bool written_by_ops(Region region) {
  return region == Region::output || region == Region::loss || region == Region::input_gradient ||
         region == Region::drained;
}

std::vector<ValueId> with_optional(std::vector<ValueId> inputs, std::optional<ValueId> last) {
  if (last) inputs.push_back(*last);
  return inputs;
}

}  // namespace

ValueId GraphBuilder::bound(Region region, std::string name, DType dtype, Shape shape, Bytes offset) {
  Value value{std::move(name), dtype, shape, region, offset};
  const std::string where = graph_.name + ": " + describe(value);
  if (region >= Region::scratch) throw BadInput(where + ": scratch cannot be bound; the planner chooses its offsets");
  const auto elements = static_cast<std::uint64_t>(shape.elements());
  if (elements == 0) throw BadInput(where + " has no elements");
  checked_add(offset, checked_multiply(elements, size_of(dtype), where), where);
  if (offset % size_of(dtype) != 0) {
    throw BadInput(where + ": offset " + std::to_string(offset) + " is not a multiple of its element size");
  }
  graph_.values.push_back(std::move(value));
  return static_cast<ValueId>(graph_.values.size() - 1);
}

std::vector<ValueId> GraphBuilder::split_rows(ValueId whole, std::int64_t count) {
  const Value given = graph_.value(whole);
  for (const Op& op : graph_.ops) {
    if (std::ranges::count(op.inputs, whole) > 0) throw BadInput(given.name + " is used whole and in parts");
  }
  Shape shape;
  for (std::size_t i = 0; i < given.shape.rank(); ++i) {
    shape.push_back(i == 0 ? given.shape[0] / count : given.shape[i]);
  }
  std::vector<ValueId> parts{whole};
  graph_.values[static_cast<std::size_t>(whole)].shape = shape;
  const Bytes bytes = graph_.value(whole).bytes();
  for (std::int64_t i = 1; i < count; ++i) {
    parts.push_back(bound(given.region, given.name, given.dtype, shape, given.offset + static_cast<Bytes>(i) * bytes));
  }
  return parts;
}

ValueId GraphBuilder::append(OpKind kind, std::vector<ValueId> inputs, Attributes attributes) {
  Op op{kind, std::move(inputs), {}, attributes};
  const std::size_t index = graph_.ops.size();
  for (Value& value : infer_outputs(graph_, op, index)) {
    value.name = std::string(name_of(kind)) + "." + std::to_string(index) + "." + value.name;
    op.outputs.push_back(static_cast<ValueId>(graph_.values.size()));
    graph_.values.push_back(std::move(value));
  }
  graph_.ops.push_back(std::move(op));
  return graph_.ops.back().outputs.front();
}

ValueId GraphBuilder::embedding(ValueId tokens, ValueId table, ValueId positions, int sequence,
                                std::optional<ValueId> places) {
  return append(OpKind::embedding, with_optional({tokens, table, positions}, places), {.sequence = sequence});
}

ValueId GraphBuilder::layer_norm(ValueId x, ValueId gain, ValueId bias, float epsilon) {
  return append(OpKind::layer_norm, {x, gain, bias}, {.epsilon = epsilon});
}

ValueId GraphBuilder::linear(ValueId x, ValueId w, std::optional<ValueId> b) {
  return append(OpKind::matmul, with_optional({x, w}, b), {});
}

ValueId GraphBuilder::linear_transposed(ValueId x, ValueId w, std::optional<ValueId> b) {
  return append(OpKind::matmul, with_optional({x, w}, b), {.transpose_b = true});
}

ValueId GraphBuilder::rms_norm(ValueId x, ValueId gain, float epsilon, bool unit_offset) {
  return append(OpKind::rms_norm, {x, gain}, {.epsilon = epsilon, .unit_offset = unit_offset});
}

ValueId GraphBuilder::head_norm(ValueId qkv, ValueId query_gain, ValueId key_gain, Attributes shape) {
  return append(OpKind::head_norm, {qkv, query_gain, key_gain}, shape);
}

ValueId GraphBuilder::tanh(ValueId x) { return append(OpKind::tanh, {x}, {}); }

ValueId GraphBuilder::sigmoid(ValueId x) { return append(OpKind::sigmoid, {x}, {}); }

ValueId GraphBuilder::silu(ValueId x) { return append(OpKind::silu, {x}, {}); }

ValueId GraphBuilder::relu(ValueId x) { return append(OpKind::relu, {x}, {}); }

ValueId GraphBuilder::gelu(ValueId x, bool exact) { return append(OpKind::gelu, {x}, {.exact = exact}); }

ValueId GraphBuilder::swiglu(ValueId x, Attributes gate) { return append(OpKind::swiglu, {x}, gate); }

ValueId GraphBuilder::attention(ValueId qkv, Attributes shape, std::optional<ValueId> documents) {
  shape.rng_op = next_rng_op_++;
  return append(OpKind::attention, with_optional({qkv}, documents), shape);
}

ValueId GraphBuilder::cached_attention(ValueId qkv, Attributes shape, ValueId documents, ValueId cache) {
  Op op{OpKind::cached_attention, {qkv, documents}, {}, shape};
  const std::size_t index = graph_.ops.size();
  Value y = infer_outputs(graph_, op, index).front();
  y.name = std::string(name_of(op.kind)) + "." + std::to_string(index) + "." + y.name;
  op.outputs = {static_cast<ValueId>(graph_.values.size()), cache};
  graph_.values.push_back(std::move(y));
  graph_.ops.push_back(std::move(op));
  return graph_.ops.back().outputs.front();
}

ValueId GraphBuilder::core_attention(ValueId qkv, Attributes shape, std::optional<ValueId> documents) {
  const float probability = std::exchange(shape.probability, 0.0f);  // that of the op between the two
  const ValueId probabilities = append(OpKind::attention_probabilities, with_optional({qkv}, documents), shape);
  return append(OpKind::attention_mix, {dropout(probabilities, probability), qkv}, shape);
}

ValueId GraphBuilder::rotary(ValueId qkv, Attributes shape, std::optional<ValueId> positions) {
  return append(OpKind::rotary, with_optional({qkv}, positions), shape);
}

ValueId GraphBuilder::dropout(ValueId x, float probability, Shard rows) {
  const std::uint32_t rng_op = next_rng_op_++;  // drawn in any case: a probability does not shift the keys after it
  if (probability == 0) return x;
  return append(OpKind::dropout, {x}, {.probability = probability, .rng_op = rng_op, .shard = rows});
}

ValueId GraphBuilder::add(ValueId a, ValueId b) { return append(OpKind::add, {a, b}, {}); }

ValueId GraphBuilder::scale(ValueId x, float factor) {
  return append(OpKind::columns, {x}, {.factor = factor, .columns = value(x).shape[1]});
}

ValueId GraphBuilder::multiply(ValueId a, ValueId b) { return append(OpKind::multiply, {a, b}, {}); }

ValueId GraphBuilder::add_columns(ValueId x, ValueId y, std::int64_t first, float factor) {
  return append(OpKind::add_columns, {x, y}, {.factor = factor, .first = first});
}

ValueId GraphBuilder::reshape(ValueId x, std::int64_t columns) {
  return append(OpKind::reshape, {x}, {.columns = columns});
}

ValueId GraphBuilder::apply(OpKind kind, std::vector<ValueId> inputs, Attributes attributes) {
  return append(kind, std::move(inputs), attributes);
}

ValueId GraphBuilder::linear_cross_entropy(ValueId x, ValueId table, ValueId targets, std::optional<ValueId> bias,
                                           float softcap) {
  return append(OpKind::linear_cross_entropy, with_optional({x, table, targets}, bias), {.softcap = softcap});
}

ValueId GraphBuilder::add_positions(ValueId x, ValueId positions, int sequence, std::optional<ValueId> places,
                                    Shard rows) {
  return append(OpKind::add_positions, with_optional({x, positions}, places), {.sequence = sequence, .shard = rows});
}

ValueId GraphBuilder::cross_entropy(ValueId statistics, ValueId targets) {
  return append(OpKind::cross_entropy, {statistics, targets}, {});
}

ValueId GraphBuilder::squared_error(ValueId y, ValueId targets) {
  return append(OpKind::squared_error, {y, targets}, {});
}

ValueId GraphBuilder::choice_cross_entropy(ValueId scores, ValueId targets) {
  return append(OpKind::choice_cross_entropy, {scores, targets}, {});
}

std::pair<ValueId, ValueId> GraphBuilder::split_streams(ValueId x, DType stream) {
  const auto first = static_cast<ValueId>(graph_.values.size());
  const Shape shape = graph_.value(x).shape;
  for (const char* const name : {"a", "b"}) graph_.values.push_back({name, stream, shape});
  append_onto(OpKind::split_streams, {x}, {first, first + 1}, {});
  return {first, first + 1};
}

ValueId GraphBuilder::begin_stream(ValueId x, DType stream) {
  return append_as(OpKind::split_streams, {x}, stream, graph_.value(x).shape);
}

ValueId GraphBuilder::merge_streams(ValueId a, ValueId b, DType compute) {
  return append_as(OpKind::merge_streams, {a, b}, compute, graph_.value(a).shape);
}

ValueId GraphBuilder::read_stream(ValueId stream, DType compute) {
  const Value& value = graph_.value(stream);
  return value.dtype == compute ? stream : append_as(OpKind::read_stream, {stream}, compute, value.shape);
}

ValueId GraphBuilder::unpack(ValueId words, WordElement type, Shape shape, DType compute) {
  const std::int64_t rows = graph_.value(words).shape[0];
  Attributes attributes{.word_element = type};
  attributes.dims = {rows, shape[0] / rows, shape[1], 1};
  return append_as(OpKind::unpack, {words}, compute, shape, attributes);
}

ValueId GraphBuilder::reversible_add(ValueId stream, ValueId branch) {
  return append(OpKind::reversible_add, {stream, branch}, {});
}

// An op whose inputs do not say the dtype of its result.
ValueId GraphBuilder::append_as(OpKind kind, std::vector<ValueId> inputs, DType dtype, Shape shape,
                                Attributes attributes) {
  const auto result = static_cast<ValueId>(graph_.values.size());
  graph_.values.push_back({std::string(name_of(kind)) + "." + std::to_string(graph_.ops.size()), dtype, shape});
  append_onto(kind, std::move(inputs), {result}, attributes);
  return result;
}

void GraphBuilder::append_onto(OpKind kind, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                               Attributes attributes) {
  graph_.ops.push_back({kind, std::move(inputs), std::move(outputs), attributes});
  check_op(graph_, graph_.ops.back(), graph_.ops.size() - 1);
}

void GraphBuilder::place(ValueId value, Region region, Bytes offset) {
  const std::string where = graph_.name + ": value " + std::to_string(value);
  if (value < 0 || static_cast<std::size_t>(value) >= graph_.values.size()) throw BadInput(where + " does not exist");
  Value& placed = graph_.values[static_cast<std::size_t>(value)];
  if (placed.region != Region::scratch) {
    throw BadInput(where + ", " + describe(placed) + ", lives in " + std::string(name_of(placed.region)) +
                   " already: only the result of an op can be placed, once");
  }
  if (!written_by_ops(region)) {
    throw BadInput(where + ", " + describe(placed) + ": no op writes to " + std::string(name_of(region)) +
                   "; place it in output or loss");
  }
  placed.region = region;
  placed.offset = offset;
}

Graph GraphBuilder::finish() {
  graph_.validate();
  return std::move(graph_);
}

}  // namespace l2l::compiler
