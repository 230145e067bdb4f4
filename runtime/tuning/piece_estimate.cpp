#include "runtime/tuning/piece_estimate.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/exchanges.h"

namespace l2l::runtime {
namespace {

using compiler::Graph;
using compiler::Op;
using compiler::OpKind;
using compiler::Value;

constexpr double kOperations = 1e11, kBytes = 1e10;  // a second
constexpr double kLaunch = 2e-6;                     // seconds

double elements(const Graph& graph, compiler::ValueId id) {
  return static_cast<double>(graph.value(id).shape.elements());
}

// Operands, and what comes from other devices. A sum over devices reads of them as much as it leaves of its own
// operand.
double bytes(const Graph& graph, const Op& op) {
  const bool reads_others = op.kind != OpKind::reduce_scatter_rows;
  double sum = reads_others ? static_cast<double>(compiler::received_bytes(graph, op)) : 0;
  for (const auto& operands : {op.inputs, op.outputs}) {
    for (const auto id : operands) sum += static_cast<double>(graph.value(id).bytes());
  }
  return sum;
}

}  // namespace

double product_operations(const Graph& graph, const Op& op) {
  const auto input = [&](std::size_t i) { return elements(graph, op.inputs[i]); };
  const auto columns = [&](std::size_t i) {
    const auto& shape = graph.value(op.inputs[i]).shape;
    return static_cast<double>(shape[shape.rank() - 1]);
  };
  const double sequence = op.attributes.sequence;
  const auto queries = [&](std::size_t i) {  // of queries, keys and values
    const double heads = op.attributes.heads;
    return input(i) * heads / (heads + 2 * kv_heads(op.attributes));
  };
  switch (op.kind) {
    case OpKind::matmul:
      return 2 * std::sqrt(input(0) * input(1) * elements(graph, op.outputs[0]));
    case OpKind::depthwise:
      return 2 * columns(1) * elements(graph, op.outputs[0]);
    case OpKind::depthwise_backward:
      return 4 * columns(2) * input(0);
    case OpKind::attention:
      return 4 * sequence * elements(graph, op.outputs[0]);
    case OpKind::attention_backward:
      return 10 * sequence * input(0);
    case OpKind::attention_probabilities:
      return 2 * sequence * queries(0);
    case OpKind::attention_probabilities_backward:
      return 4 * sequence * queries(2);
    case OpKind::attention_mix:
      return 2 * sequence * elements(graph, op.outputs[0]);
    case OpKind::attention_mix_backward:
      return 4 * sequence * input(0);
    case OpKind::linear_cross_entropy:
    case OpKind::softmax_statistics:
      return 2 * input(0) * input(1) / columns(0);
    case OpKind::linear_cross_entropy_backward:
    case OpKind::chunk_cross_entropy_backward:
      return 6 * input(0) * input(1) / columns(0);
    default:
      return 0;
  }
}

PieceWork work_of(PieceSort sort, double seconds) {
  PieceWork work{};
  work[static_cast<std::size_t>(sort)] = seconds;
  return work;
}

PieceWork work_of(const Graph& graph) {
  PieceWork work{};
  for (const Op& op : graph.ops) {
    const double arithmetic = product_operations(graph, op) / kOperations, memory = bytes(graph, op) / kBytes;
    const PieceSort sort = arithmetic > memory ? PieceSort::arithmetic : PieceSort::memory;
    work[static_cast<std::size_t>(sort)] += std::max(arithmetic, memory) + kLaunch;
  }
  return work;
}

Cost PieceRates::rate(std::size_t sort) const {
  const Sum& sum = sums_[sort];
  return sum.nominal > 0 ? (1 / sum.nominal) * sum.cost : Cost{1, 1};
}

void PieceRates::learn(const PieceWork& work, const Cost& cost) {
  const double all = estimate(work).seconds;
  if (all <= 0) return;
  for (std::size_t sort = 0; sort < work.size(); ++sort) {
    const double share = work[sort] * rate(sort).seconds / all;
    if (share <= 0) continue;
    sums_[sort].cost = sums_[sort].cost + share * cost;
    sums_[sort].nominal += work[sort];
  }
}

Cost PieceRates::estimate(const PieceWork& work) const {
  Cost sum;
  for (std::size_t sort = 0; sort < work.size(); ++sort) sum = sum + work[sort] * rate(sort);
  return sum;
}

}  // namespace l2l::runtime
