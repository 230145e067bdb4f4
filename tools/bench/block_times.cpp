#include "tools/bench/block_times.h"

#include <algorithm>

#include "compiler/autodiff/differentiate.h"
#include "compiler/fusion/fuse.h"
#include "compiler/ir/exchanges.h"
#include "models/families.h"
#include "runtime/tuning/piece_estimate.h"

namespace l2l::tools {
namespace {

using compiler::Graph;
using compiler::Op;
using compiler::OpKind;
using compiler::Value;
using compiler::ValueId;

// The same block with attention in separate ops. Dropout's keys are not those of the whole layer, so it is for no run.
Graph with_core_attention(Graph graph) {
  const auto attention = std::ranges::find_if(graph.ops, [](const Op& op) { return op.kind == OpKind::attention; });
  const ValueId qkv = attention->inputs[0], y = attention->outputs[0], probabilities = attention->outputs[1];
  compiler::Attributes attributes = attention->attributes;
  attributes.probability = 0;
  Value& value = graph.values[static_cast<std::size_t>(probabilities)];
  value.name = "probabilities";
  value.dtype = graph.value(qkv).dtype;
  value.shape = {graph.value(qkv).shape[0] * attributes.heads, attributes.sequence};
  Value kept = value;
  kept.name = "probabilities that are kept";
  const auto dropped = static_cast<ValueId>(graph.values.size());
  graph.values.push_back(kept);
  const Op drop{OpKind::dropout,
                {probabilities},
                {dropped},
                {.probability = attention->attributes.probability, .rng_op = attention->attributes.rng_op}};
  *attention = {OpKind::attention_mix, {dropped, qkv}, {y}, attributes};
  graph.ops.insert(attention, {{OpKind::attention_probabilities, {qkv}, {probabilities}, attributes}, drop});
  return graph;
}

class Estimate {
 public:
  explicit Estimate(const GpuRates& gpu) : gpu_(gpu) {}

  VisitTime time(const Graph& graph) const {
    VisitTime sum;
    for (const Op& op : graph.ops) add(graph, op, sum);
    return sum;
  }

 private:
  void add(const Graph& graph, const Op& op, VisitTime& sum) const {
    const double operations = runtime::product_operations(graph, op);
    switch (op.kind) {
      case OpKind::all_gather_rows:
      case OpKind::reduce_scatter_rows:
        sum.exchanges += static_cast<double>(compiler::received_bytes(graph, op)) / gpu_.exchange;
        break;
      case OpKind::attention:  // of causal attention half
        sum.attention += operations / 2 / gpu_.attention_forward;
        break;
      case OpKind::attention_backward:
        sum.attention += operations / 2 / gpu_.attention_backward;
        break;
      default:
        const double arithmetic = operations / gpu_.products, memory = bytes(graph, op) / gpu_.memory;
        (arithmetic > memory ? sum.products : sum.memory) += std::max(arithmetic, memory);
    }
  }

  static double bytes(const Graph& graph, const Op& op) {
    double sum = 0;
    for (const auto& operands : {op.inputs, op.outputs}) {
      for (const ValueId id : operands) sum += static_cast<double>(graph.value(id).bytes());
    }
    return sum;
  }

  const GpuRates& gpu_;
};

}  // namespace

BlockTimes block_times(const BlockCase& block, const GpuRates& gpu) {
  const models::Model model = models::make_gpt2(block.shape);
  Graph forward = model.type(model.block(1)).forward;
  if (block.attention == Attention::core) forward = with_core_attention(std::move(forward));
  const compiler::Visits visits =
      compiler::differentiate(forward, compiler::remat::values_to_save(forward, block.policy));
  const Estimate estimate(gpu);
  return {estimate.time(compiler::fuse(visits.forward)), estimate.time(compiler::fuse(visits.backward))};
}

}  // namespace l2l::tools
