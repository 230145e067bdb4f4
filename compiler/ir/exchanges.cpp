#include "compiler/ir/exchanges.h"

namespace l2l::compiler {
namespace {

// From each of the others.
Bytes received_from_each(const Graph& graph, const Op& op) {
  switch (op.kind) {
    case OpKind::all_gather_rows:
      return graph.value(op.inputs[0]).bytes();
    case OpKind::reduce_scatter_rows:
      return graph.value(op.outputs[0]).bytes();
    case OpKind::linear_cross_entropy:
    case OpKind::linear_cross_entropy_backward:
      return static_cast<Bytes>(graph.value(op.inputs[0]).shape[0]) * kRowStatisticsBytes;
    default:
      return 0;
  }
}

}  // namespace

Bytes received_bytes(const Graph& graph, const Op& op) {
  const auto others = static_cast<Bytes>(op.attributes.shard.count - 1);
  return others > 0 ? others * received_from_each(graph, op) : 0;
}

Bytes received_bytes(const Graph& graph) {
  Bytes bytes = 0;
  for (const Op& op : graph.ops) bytes += received_bytes(graph, op);
  return bytes;
}

}  // namespace l2l::compiler
