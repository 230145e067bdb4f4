// Cases of the fused ops. Their outputs are what the op table infers.
#include "compiler/ir/op_check.h"
#include "compiler/ir/op_table.h"
#include "tests/conformance/ops/op_table.h"

namespace l2l::test {
namespace {

using compiler::Op;
using compiler::OpKind;
using compiler::Value;
using compiler::ValueId;

constexpr std::int64_t kInner = 24;  // of the product

// The shape of an input, by its name in the op table.
Shape shape_of(std::string_view name, std::int64_t rows, std::int64_t columns) {
  if (name == "a") return {rows, kInner};
  if (name == "b") return {kInner, columns};
  if (name == "gain" || name == "bias") return {columns};
  if (name == "mean" || name == "inverse_deviation" || name == "inverse_rms") return {rows};
  return {rows, columns};
}

ValueId add_value(OpCase& test_case, DType dtype, Shape shape) {
  const auto id = static_cast<ValueId>(test_case.graph.values.size());
  test_case.graph.values.push_back({"v" + std::to_string(id), dtype, shape});
  return id;
}

std::string name_of_case(OpKind kind, DType dtype, std::int64_t rows, std::int64_t columns, float probability,
                         bool last) {
  std::string name = std::string(compiler::name_of(kind)) + "_" + std::string(name_of(dtype)) + "_";
  name += std::to_string(rows) + "x" + std::to_string(columns);
  if (probability > 0) name += "_p" + std::to_string(static_cast<int>(probability * 100 + 0.5f));
  return name + (last ? "" : "_without_last");
}

}  // namespace

OpCase fused_case(OpKind kind, DType dtype, std::int64_t rows, std::int64_t columns, float probability, bool last) {
  const compiler::OpRule& rule = compiler::rule_of(kind);
  OpCase result;
  result.name = result.graph.name = name_of_case(kind, dtype, rows, columns, probability, last);
  result.parameters = {.seed = 0x123456789abcdef1u, .step = 3, .layer = 5, .microbatch = 7, .loss_scale = 1.0f / 19};
  Op op{kind, {}, {}, {.epsilon = 1e-5f, .probability = probability, .rng_op = 9}};
  for (const auto& slot : rule.inputs) {
    const DType type = slot.type == compiler::SlotType::f32 ? DType::f32 : dtype;
    op.inputs.push_back(add_value(result, type, shape_of(slot.name, rows, columns)));
  }
  for (const Value& value : compiler::infer_outputs(result.graph, op, 0)) {
    op.outputs.push_back(add_value(result, value.dtype, value.shape));
  }
  for (std::size_t i = op.outputs.size(); i < rule.outputs.size(); ++i) {
    if (rule.outputs[i].accumulates) {
      op.outputs.push_back(add_value(result, DType::f32, {columns}));
    } else if (last) {
      op.outputs.push_back(add_value(result, dtype, {rows, columns}));
    }
  }
  result.graph.ops.push_back(std::move(op));
  return result;
}

std::vector<OpCase> fused_conformance_cases(DType dtype) {
  std::vector<OpCase> cases;
  for (const std::int64_t rows : {1, 7, 33, 130}) {
    for (const std::int64_t columns : {3, 8, 24, 160}) {
      for (const OpKind kind : {OpKind::add_layer_norm, OpKind::add_rms_norm}) {
        cases.push_back(fused_case(kind, dtype, rows, columns));
        cases.push_back(fused_case(kind, dtype, rows, columns, 0, false));
      }
      for (const OpKind kind :
           {OpKind::layer_norm_backward_add, OpKind::rms_norm_backward_add, OpKind::gelu_backward_bias}) {
        cases.push_back(fused_case(kind, dtype, rows, columns));
      }
      cases.push_back(frozen(fused_case(OpKind::layer_norm_backward_add, dtype, rows, columns), 1));
      cases.push_back(frozen(fused_case(OpKind::layer_norm_backward_add, dtype, rows, columns), 2));
      cases.push_back(frozen(fused_case(OpKind::rms_norm_backward_add, dtype, rows, columns), 1));
      for (const OpKind kind : {OpKind::dropout_add, OpKind::dropout_bias, OpKind::add_layer_norm}) {
        cases.push_back(fused_case(kind, dtype, rows, columns, 0.25f));
      }
    }
  }
  for (const std::int64_t columns : {1031, 4104}) {  // rows of several warps
    cases.push_back(fused_case(OpKind::add_layer_norm, dtype, 3, columns, 0.25f));
    cases.push_back(fused_case(OpKind::add_rms_norm, dtype, 3, columns));
    cases.push_back(fused_case(OpKind::layer_norm_backward_add, dtype, 3, columns));
    cases.push_back(fused_case(OpKind::rms_norm_backward_add, dtype, 3, columns));
  }
  for (const OpKind kind : {OpKind::dropout_add, OpKind::dropout_bias, OpKind::add_layer_norm}) {
    OpCase evaluation = fused_case(kind, dtype, 7, 24, 0.25f);
    OpCase words = evaluation;
    words.name += "_words";
    words.parameters.dropout_masks = DropoutMasks::words;
    cases.push_back(std::move(words));
    evaluation.name += "_evaluation";
    evaluation.parameters.training = false;
    cases.push_back(std::move(evaluation));
  }
  return cases;
}

}  // namespace l2l::test
