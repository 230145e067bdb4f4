#include "compiler/ir/op_check.h"

#include <optional>

#include "compiler/ir/op_table.h"
#include "l2l/errors.h"

namespace l2l::compiler {
namespace {

constexpr std::string_view kAnyShape = "*";

// The check of one op. Collects sizes and the compute dtype from operand to operand.
class OpCheck {
 public:
  OpCheck(const Graph& graph, const Op& op) : graph_(graph), op_(op), rule_(rule_of(op.kind)) {}

  void inputs() {
    const std::size_t most = rule_.inputs.size();
    const std::size_t least = most > 0 && rule_.inputs.back().optional ? most - 1 : most;
    if (op_.inputs.size() < least || op_.inputs.size() > most) {
      throw BadInput(std::to_string(op_.inputs.size()) + " inputs instead of " + std::to_string(most));
    }
    for (std::size_t i = 0; i < op_.inputs.size(); ++i) operand(rule_.inputs[i], op_.inputs[i], false);
    if (rule_.derive != nullptr) rule_.derive(op_.attributes, sizes_);
  }

  void outputs() {
    const std::size_t most = rule_.outputs.size();
    if (op_.outputs.size() < least_outputs() || op_.outputs.size() > most) {
      throw BadInput(std::to_string(op_.outputs.size()) + " outputs instead of " + std::to_string(most));
    }
    // Of an op with an optional input, the last optional output is its gradient.
    if (least_outputs() < most && rule_.inputs.back().optional && op_.outputs.size() == most &&
        op_.inputs.size() < rule_.inputs.size()) {
      throw BadInput(std::string(rule_.outputs.back().name) + " comes only with " +
                     std::string(rule_.inputs.back().name));
    }
    for (std::size_t i = 0; i < op_.outputs.size(); ++i) {
      operand(rule_.outputs[i], op_.outputs[i], accumulates(op_, i));
    }
    if (rule_.derive != nullptr) rule_.derive(op_.attributes, sizes_);
  }

  // After inputs(), whose sizes and dtype fix those of every output that is not an accumulator.
  std::vector<Value> inferred() const {
    std::vector<Value> values;
    for (std::size_t i = 0; i < least_outputs(); ++i) {
      Value value{std::string(rule_.outputs[i].name), dtype_of(rule_.outputs[i], accumulates(op_, i)).value(), {}};
      if (rule_.outputs[i].dims == kAnyShape) {
        value.shape = shape_of_any();
      } else {
        for (const char letter : rule_.outputs[i].dims) value.shape.push_back(sizes_[letter]);
      }
      values.push_back(std::move(value));
    }
    return values;
  }

 private:
  std::size_t least_outputs() const {
    std::size_t least = rule_.outputs.size();
    while (least > 0 && rule_.outputs[least - 1].optional) --least;
    return least;
  }

  // Of reshape's result.
  Shape shape_of_any() const {
    const std::int64_t columns = op_.attributes.columns;
    return columns == 0 ? graph_.value(op_.inputs[0]).shape : Shape{sizes_['E'] / columns, columns};
  }

  // Nothing when it is the compute dtype and no operand has fixed that yet.
  std::optional<DType> dtype_of(const Slot& slot, bool accumulated) const {
    if (accumulated && !slot.accumulates) return DType::f32;  // a product made to accumulate
    switch (slot.type) {
      case SlotType::f32:
        return DType::f32;
      case SlotType::f64:
        return DType::f64;
      case SlotType::i32:
        return DType::i32;
      case SlotType::stream:
      case SlotType::stream_or_compute:
        return stream_;
      case SlotType::any:
        return any_;
      case SlotType::compute:
        break;
    }
    return compute_;
  }

  void operand(const Slot& slot, ValueId id, bool accumulated) {
    if (id < 0 || static_cast<std::size_t>(id) >= graph_.values.size()) {
      throw BadInput(std::string(slot.name) + " is value " + std::to_string(id) + ", which does not exist");
    }
    const Value& value = graph_.value(id);
    dtype(slot, value, accumulated);
    if (slot.dims == kAnyShape) return sizes_.set('E', value.shape.elements());
    if (value.shape.rank() != slot.dims.size()) fail(slot, value, "must be of shape " + expected(slot));
    for (std::size_t i = 0; i < slot.dims.size(); ++i) {
      const std::int64_t known = sizes_[slot.dims[i]];
      if (known != 0 && known != value.shape[i]) fail(slot, value, "must be of shape " + expected(slot));
      if (known == 0) sizes_.set(slot.dims[i], value.shape[i]);
    }
  }

  void dtype(const Slot& slot, const Value& value, bool accumulated) {
    const std::optional<DType> wanted = dtype_of(slot, accumulated);
    if (wanted && *wanted != value.dtype) fail(slot, value, "must be " + std::string(name_of(*wanted)));
    if (wanted) return;
    if (slot.type == SlotType::any) {
      any_ = value.dtype;
      return;
    }
    if (slot.type == SlotType::stream || slot.type == SlotType::stream_or_compute) return stream(slot, value);
    if (!is_compute_type(value.dtype)) fail(slot, value, "must be f32, bf16 or f16");
    compute_ = value.dtype;
  }

  void stream(const Slot& slot, const Value& value) {
    const bool compute = slot.type == SlotType::stream_or_compute && compute_ == value.dtype;
    if (value.dtype != DType::f32 && value.dtype != DType::i32 && !compute) {
      fail(slot, value, "must be a stream: f32 or i32");
    }
    stream_ = value.dtype;
  }

  // "[R, H], R = 6"
  std::string expected(const Slot& slot) const {
    std::string dims, known;
    for (const char letter : slot.dims) {
      dims += (dims.empty() ? "" : ", ") + std::string(1, letter);
      if (letter != '1' && sizes_[letter] != 0) {
        known += std::string(", ") + letter + " = " + std::to_string(sizes_[letter]);
      }
    }
    return "[" + dims + "]" + known;
  }

  [[noreturn]] static void fail(const Slot& slot, const Value& value, const std::string& why) {
    throw BadInput(std::string(slot.name) + " = " + describe(value) + " " + why);
  }

  const Graph& graph_;
  const Op& op_;
  const OpRule& rule_;
  Sizes sizes_;
  std::optional<DType> compute_, stream_, any_;
};

std::string describe_operands(const Graph& graph, const Op& op) {
  std::string text;
  for (const std::vector<ValueId>* ids : {&op.inputs, &op.outputs}) {
    for (const ValueId id : *ids) {
      if (id < 0 || static_cast<std::size_t>(id) >= graph.values.size()) continue;
      text += (text.empty() ? "" : ", ") + describe(graph.value(id));
    }
  }
  return text;
}

template <typename Check>
void with_context(const Graph& graph, const Op& op, std::size_t index, const Check& check) {
  try {
    check();
  } catch (const BadInput& error) {
    throw BadInput(graph.name + ": op " + std::to_string(index) + ", " + std::string(name_of(op.kind)) + ": " +
                   error.what() + " (operands: " + describe_operands(graph, op) + ")");
  }
}

}  // namespace

std::string describe(const Value& value) {
  return value.name + " " + std::string(name_of(value.dtype)) + " " + value.shape.to_string();
}

std::vector<Value> infer_outputs(const Graph& graph, const Op& op, std::size_t index) {
  std::vector<Value> outputs;
  with_context(graph, op, index, [&] {
    OpCheck check(graph, op);
    check.inputs();
    outputs = check.inferred();
  });
  return outputs;
}

void check_op(const Graph& graph, const Op& op, std::size_t index) {
  if (op.kind >= OpKind::count) {
    throw BadInput(graph.name + ": op " + std::to_string(index) + " is of no known kind");
  }
  with_context(graph, op, index, [&] {
    OpCheck check(graph, op);
    check.inputs();
    check.outputs();
  });
}

}  // namespace l2l::compiler
