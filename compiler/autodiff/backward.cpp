#include "compiler/autodiff/backward.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "compiler/autodiff/differentiate.h"
#include "compiler/ir/drop_unused.h"
#include "compiler/ir/op_check.h"
#include "compiler/ir/op_table.h"
#include "l2l/errors.h"

namespace l2l::compiler {
namespace {

bool reads(const Graph& graph, ValueId id) {
  return std::any_of(graph.ops.begin(), graph.ops.end(), [&](const Op& op) {
    return std::find(op.inputs.begin(), op.inputs.end(), id) != op.inputs.end();
  });
}

}  // namespace

Backward::Backward(const Graph& forward)
    : forward_(forward),
      graph_{forward.name + " backward", forward.values, {}},
      gradients_(forward.values.size(), kNone) {
  seed();
}

// The op of a loss applies LaunchParameters::loss_scale itself, so the loss stands for its own gradient.
void Backward::seed() {
  const std::vector<ValueId> outputs = values_in(Region::output), losses = values_in(Region::loss);
  if (losses.size() > 1 || outputs.empty() == losses.empty()) {
    throw BadInput(forward_.name +
                   ": place exactly one value in loss, or values in output, to differentiate the graph");
  }
  for (const ValueId loss : losses) gradients_[static_cast<std::size_t>(loss)] = loss;
  for (const ValueId output : outputs) seed_output(output);
}

void Backward::seed_output(ValueId output) {
  const DType dtype = gradient_dtype(output);
  Value& recomputed = graph_.values[static_cast<std::size_t>(output)];
  const Bytes offset = recomputed.offset / size_of(recomputed.dtype) * size_of(dtype);
  recomputed.region = Region::scratch;
  recomputed.offset = 0;
  const Value gradient{"d " + recomputed.name, dtype, recomputed.shape, Region::output_gradient, offset};
  gradients_[static_cast<std::size_t>(output)] = add_value(gradient);
}

// The value's own dtype; for a stream the compute type, which is that of the last input of its op.
DType Backward::gradient_dtype(ValueId output) const {
  const Op* const maker = forward_.producer(output);
  const bool stream =
      maker != nullptr && (maker->kind == OpKind::reversible_add || maker->kind == OpKind::split_streams);
  return forward_.value(stream ? maker->inputs.back() : output).dtype;
}

void Backward::differentiate() {
  for (auto op = forward_.ops.rbegin(); op != forward_.ops.rend(); ++op) differentiate(*op);
}

void Backward::differentiate(const Op& op) {
  const bool read = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId id) { return has_gradient(id); });
  if (!read) return;
  VectorJacobianProduct* const vjp = vjp_of(op.kind);
  if (vjp == nullptr) refuse(op, "has no derivative");
  if (!has_gradient(op.outputs[0])) refuse(op, "only its first output can be differentiated");
  vjp(*this, op);
}

ValueId Backward::like(ValueId id) {
  const Value& value = graph_.value(id);
  return add_value({"d " + value.name, value.dtype, value.shape, Region::scratch});
}

std::vector<Backward::TrainedRows> Backward::trained_rows(ValueId id) {
  const Value weight = graph_.value(id);
  if (weight.region != Region::weights) {
    throw BadInput(forward_.name + ": " + describe(weight) + " is used as a parameter and must live in weights");
  }
  const auto begin = static_cast<std::int64_t>(weight.offset / size_of(weight.dtype));
  const std::int64_t elements = weight.shape.elements(), width = elements / weight.shape[0];
  const auto add_accumulator = [&](const Shape& shape, std::int64_t offset) {
    const Bytes bytes = static_cast<Bytes>(offset) * size_of(DType::f32);
    return add_value({"d " + weight.name, DType::f32, shape, Region::gradients, bytes});
  };
  if (!forward_.gradient_ranges) {
    ValueId& known = gradients_[static_cast<std::size_t>(id)];
    if (known == kNone) known = add_accumulator(weight.shape, begin);
    return {{0, weight.shape[0], known}};
  }
  if (const auto known = trained_.find(id); known != trained_.end()) return known->second;
  std::vector<TrainedRows> pieces;
  for (const GradientRange& range : *forward_.gradient_ranges) {
    const std::int64_t from = std::max(begin, range.begin),
                       to = std::min(begin + elements, range.begin + range.elements);
    if (from >= to) continue;
    if ((from - begin) % width != 0 || (to - from) % width != 0) {
      throw BadInput(forward_.name + ": " + describe(weight) + ": a row is trained in part");
    }
    const std::int64_t rows = (to - from) / width;
    const Shape shape = weight.shape.rank() == 1 ? Shape{rows} : Shape{rows, width};
    pieces.push_back({(from - begin) / width, rows, add_accumulator(shape, range.gradient + from - range.begin)});
  }
  trained_.emplace(id, pieces);
  return pieces;
}

std::optional<ValueId> Backward::accumulator(ValueId id) {
  const std::vector<TrainedRows> pieces = trained_rows(id);
  if (pieces.empty()) return std::nullopt;
  if (pieces.size() > 1 || pieces[0].rows < graph_.value(id).shape[0]) {
    throw BadInput(forward_.name + ": " + describe(graph_.value(id)) + ": only products take weights trained in part");
  }
  return pieces[0].accumulator;
}

std::vector<ValueId> Backward::with_accumulators(const Op& op, std::vector<ValueId> outputs,
                                                 std::span<const ValueId> weights) {
  bool frozen = false;
  for (const ValueId id : weights) {
    const std::optional<ValueId> gradient = accumulator(id);
    if (gradient && frozen) {
      refuse(op, "trains " + graph_.value(id).name + " but not " + graph_.value(weights.front()).name +
                     ": name both in optimizer.train, or neither");
    }
    frozen = !gradient;
    if (gradient) outputs.push_back(*gradient);
  }
  return outputs;
}

ValueId Backward::columns(ValueId matrix, std::int64_t first, std::int64_t count, float factor) {
  const Value whole = graph_.value(matrix);
  if (first == 0 && count == whole.shape[1] && factor == 1) return matrix;
  const ValueId part = add_value({"columns of " + whole.name, whole.dtype, {whole.shape[0], count}, Region::scratch});
  append(OpKind::columns, {matrix}, {part}, {.factor = factor, .first = first, .columns = count});
  return part;
}

void Backward::append(OpKind kind, std::vector<ValueId> inputs, std::vector<ValueId> outputs, Attributes attributes) {
  graph_.ops.push_back({kind, std::move(inputs), std::move(outputs), attributes});
}

void Backward::contribute(ValueId id, ValueId gradient) {
  if (is_weight(id)) {
    throw BadInput(forward_.name + ": " + describe(graph_.value(id)) +
                   " is a weight, but used where no op accumulates its gradient; only products, norms, embeddings and "
                   "losses take weights");
  }
  ValueId& known = gradients_[static_cast<std::size_t>(id)];
  if (known == kNone) {
    known = gradient;
    return;
  }
  const Value& value = graph_.value(id);
  const ValueId sum = add_value({"d " + value.name, graph_.value(gradient).dtype, value.shape, Region::scratch});
  append(OpKind::add, {known, gradient}, {sum}, {});
  gradients_[static_cast<std::size_t>(id)] = sum;
}

std::optional<ValueId> Backward::take(ValueId id) {
  if (is_weight(id) || gradient(id) == kNone) return std::nullopt;
  return std::exchange(gradients_[static_cast<std::size_t>(id)], kNone);
}

void Backward::refuse(const Op& op, const std::string& why) const {
  throw BadInput(forward_.name + ": " + std::string(name_of(op.kind)) + ": " + why);
}

std::vector<ValueId> Backward::values_read() const {
  std::vector<ValueId> made;
  for (const Op& op : forward_.ops) {
    std::copy_if(op.outputs.begin(), op.outputs.end(), std::back_inserter(made),
                 [&](ValueId id) { return reads(graph_, id); });
  }
  return made;
}

// Appends the ops that make `id`, a value of the forward graph, unless it is available.
void Backward::recompute(ValueId id, std::vector<Op>& ops) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= available_.size() || available_[index]) return;
  const Op* maker = forward_.producer(id);
  if (maker == nullptr) return;
  for (const ValueId input : maker->inputs) recompute(input, ops);
  ops.push_back(again(*maker));
  for (const ValueId output : maker->outputs) available_[static_cast<std::size_t>(output)] = true;
}

// A copy of `op` that does not overwrite results that are available already.
Op Backward::again(const Op& op) {
  Op repeated = op;
  for (ValueId& output : repeated.outputs) {
    if (!available_[static_cast<std::size_t>(output)]) continue;
    Value unread = forward_.value(output);
    unread.name += " again";
    output = add_value(std::move(unread));
  }
  return repeated;
}

void Backward::place_input_gradient(ValueId input) {
  if (!reads(forward_, input)) return;
  const Value& value = forward_.value(input);
  ValueId gradient = this->gradient(input);
  if (gradient == kNone && value.dtype == DType::i32) return;  // indices have none
  if (gradient == kNone) {
    throw BadInput(forward_.name + ": the result does not depend on the input " + describe(value) +
                   ", which ops read; leave them out");
  }
  if (graph_.value(gradient).region != Region::scratch) {  // that of the output, or of another input, too
    const ValueId copy = add_value({"d " + value.name, graph_.value(gradient).dtype, value.shape, Region::scratch});
    append(OpKind::reshape, {gradient}, {copy}, {});
    gradient = copy;
  }
  Value& placed = graph_.values[static_cast<std::size_t>(gradient)];
  placed.region = Region::input_gradient;
  placed.offset = value.offset / size_of(value.dtype) * size_of(placed.dtype);
}

void Backward::recompute(const std::vector<ValueId>& saved) {
  place_saved(graph_, saved);
  available_.assign(forward_.values.size(), false);
  for (const ValueId id : saved) available_[static_cast<std::size_t>(id)] = true;
  std::vector<Op> ops;
  if (saved.empty()) {
    for (const ValueId id : values_read()) recompute(id, ops);
  }
  for (Op& op : graph_.ops) {
    for (const ValueId input : op.inputs) recompute(input, ops);
    ops.push_back(std::move(op));
  }
  graph_.ops = std::move(ops);
}

void Backward::exchange_ends() {
  for (const ValueId id : values_in(Region::output)) {
    Value& value = graph_.values[static_cast<std::size_t>(id)];
    value.region = Region::input;
    value.offset = forward_.value(id).offset;
  }
  for (const ValueId id : values_in(Region::input)) graph_.values[static_cast<std::size_t>(id)].region = Region::output;
}

Graph Backward::finish() {
  for (const ValueId input : values_in(Region::input)) place_input_gradient(input);
  Graph result = std::move(graph_);
  drop_unused(result, Unused::all);  // a region that no op of the backward graph reads need not be bound
  result.validate();
  return result;
}

std::vector<ValueId> Backward::values_in(Region region) const {
  std::vector<ValueId> found;
  for (std::size_t i = 0; i < forward_.values.size(); ++i) {
    if (forward_.values[i].region == region) found.push_back(static_cast<ValueId>(i));
  }
  return found;
}

ValueId Backward::add_value(Value value) {
  graph_.values.push_back(std::move(value));
  return static_cast<ValueId>(graph_.values.size() - 1);
}

void place_saved(Graph& graph, const std::vector<ValueId>& saved) {
  Bytes end = 0;
  for (const ValueId id : saved) {
    if (id < 0 || static_cast<std::size_t>(id) >= graph.values.size()) {
      throw BadInput(graph.name + ": there is no value " + std::to_string(id) + " to save");
    }
    Value& value = graph.values[static_cast<std::size_t>(id)];
    if (value.region != Region::scratch) throw BadInput(graph.name + ": " + describe(value) + " cannot be saved");
    value.region = Region::saved;
    value.offset = end;
    end = align_up(end + value.bytes(), kSavedAlignment);
  }
}

}  // namespace l2l::compiler
