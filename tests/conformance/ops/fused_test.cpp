// A fused op and the ops it stands for give the same bits, on whichever backend this is linked with.
#include <gtest/gtest.h>

#include "compiler/fusion/unfuse.h"
#include "tests/conformance/ops/harness.h"

namespace l2l::test {
namespace {

using compiler::Graph;
using compiler::Op;
using compiler::OpKind;

// The op of `parts` on `values`, through its kernel.
void run_part(const Graph& parts, const Op& op, const OpCase& whole, Tensors& values) {
  OpCase part{whole.name, parts, whole.parameters};
  part.graph.ops = {op};
  Tensors own;
  for (const std::vector<compiler::ValueId>* ids : {&op.inputs, &op.outputs}) {
    for (const auto id : *ids) own.push_back(values[static_cast<std::size_t>(id)]);
  }
  Memory memory(part, own);
  run_kernel(part, memory, variants().front());
  const Tensors results = memory.read();
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    values[static_cast<std::size_t>(op.outputs[i])] = results[op.inputs.size() + i];
  }
}

Tensors run_parts(const OpCase& test_case, const Tensors& operands) {
  const Graph parts = compiler::unfused(test_case.graph, test_case.op());
  Tensors values = operands;
  for (std::size_t i = values.size(); i < parts.values.size(); ++i) {
    values.emplace_back(static_cast<std::size_t>(parts.values[i].shape.elements()));
  }
  for (const Op& op : parts.ops) run_part(parts, op, test_case, values);
  values.resize(operands.size());
  return values;
}

Tensors run_whole(const OpCase& test_case, const Tensors& operands) {
  Memory memory(test_case, operands);
  run_kernel(test_case, memory, variants().front());
  return memory.read();
}

TEST(Fused, GivesTheBitsOfItsParts) {
  int compared = 0;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const OpCase& test_case : fused_conformance_cases(dtype)) {
      const Tensors operands = make_operands(test_case);
      EXPECT_TRUE(run_whole(test_case, operands) == run_parts(test_case, operands)) << test_case.name;
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
}

TEST(Fused, AnotherKeyOfDropoutIsNoticed) {
  OpCase test_case = fused_case(OpKind::dropout_bias, DType::f32, 33, 24, 0.25f);
  const Tensors operands = make_operands(test_case), whole = run_whole(test_case, operands);
  ++test_case.graph.ops[0].attributes.rng_op;
  EXPECT_FALSE(whole == run_parts(test_case, operands));
}

}  // namespace
}  // namespace l2l::test
