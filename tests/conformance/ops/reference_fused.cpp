#include <algorithm>

#include "compiler/fusion/unfuse.h"
#include "tests/conformance/ops/reference.h"

namespace l2l::test {
namespace {

bool read_later(const compiler::Graph& parts, const compiler::Op& by, compiler::ValueId id) {
  return std::any_of(parts.ops.begin() + (&by - parts.ops.data()), parts.ops.end(), [&](const compiler::Op& op) {
    return std::find(op.inputs.begin(), op.inputs.end(), id) != op.inputs.end();
  });
}

}  // namespace

void reference_fused(const ReferenceCall& call) {
  const compiler::Graph parts = compiler::unfused(call.graph, call.op);
  Tensors values = call.operands;
  for (std::size_t i = values.size(); i < parts.values.size(); ++i) {
    values.emplace_back(static_cast<std::size_t>(parts.values[i].shape.elements()));
  }
  for (const compiler::Op& op : parts.ops) {
    Tensors own;
    for (const std::vector<compiler::ValueId>* ids : {&op.inputs, &op.outputs}) {
      for (const auto id : *ids) own.push_back(values[static_cast<std::size_t>(id)]);
    }
    run_reference({parts, op, call.parameters, own, false});
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const auto id = static_cast<std::size_t>(op.outputs[i]);
      values[id] = own[op.inputs.size() + i];
      if (call.round && read_later(parts, op, op.outputs[i])) {
        for (double& value : values[id]) value = round_to(parts.values[id].dtype, value);
      }
    }
  }
  for (std::size_t i = call.op.inputs.size(); i < call.operands.size(); ++i) call.operands[i] = values[i];
}

}  // namespace l2l::test
