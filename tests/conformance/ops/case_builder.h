// Builds the cases of the table of ops.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "compiler/ir/op_check.h"
#include "tests/conformance/ops/op_table.h"

namespace l2l::test {

// Collects the values of one op and names the case after them. Thread-bound.
class CaseBuilder {
 public:
  CaseBuilder(compiler::OpKind kind, DType dtype) : dtype_(dtype) {
    case_.graph.ops.push_back({kind, {}, {}, {}});
    case_.name = std::string(compiler::name_of(kind)) + "_" + std::string(name_of(dtype));
    case_.parameters.seed = 0x123456789abcdef1u;
    case_.parameters.step = 3;
    case_.parameters.layer = 5;
    case_.parameters.microbatch = 7;
    case_.parameters.loss_scale = 1.0f / 19;
    attributes().rng_op = 9;
  }

  compiler::Attributes& attributes() { return case_.graph.ops.front().attributes; }
  CaseBuilder& input(DType dtype, Shape shape) {
    case_.graph.ops.front().inputs.push_back(add(dtype, shape));
    return *this;
  }
  CaseBuilder& output(DType dtype, Shape shape) {
    case_.graph.ops.front().outputs.push_back(add(dtype, shape));
    return *this;
  }
  CaseBuilder& input(Shape shape) { return input(dtype_, shape); }
  CaseBuilder& output(Shape shape) { return output(dtype_, shape); }
  CaseBuilder& named(const std::string& suffix) {
    case_.name += "_" + suffix;
    return *this;
  }
  CaseBuilder& first_token(std::int64_t token) {
    case_.parameters.first_token = token;
    return *this;
  }
  OpCase finish() {
    case_.graph.name = case_.name;
    return std::move(case_);
  }
  // The same; throws BadInput where the op table has another signature.
  OpCase checked() {
    compiler::check_op(case_.graph, case_.op(), 0);
    return finish();
  }

 private:
  compiler::ValueId add(DType dtype, Shape shape) {
    compiler::Value value;
    value.name = "v" + std::to_string(case_.graph.values.size());
    value.dtype = dtype;
    value.shape = shape;
    case_.graph.values.push_back(value);
    return static_cast<compiler::ValueId>(case_.graph.values.size() - 1);
  }

  DType dtype_;
  OpCase case_;
};

// "2x3x5"
inline std::string join(std::initializer_list<std::int64_t> numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : "x") + std::to_string(number);
  return text;
}

}  // namespace l2l::test
