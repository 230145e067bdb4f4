#include "tools/bench/block_times.h"

#include <algorithm>

#include "compiler/autodiff/differentiate.h"
#include "compiler/fusion/fuse.h"
#include "models/families.h"
#include "runtime/tuning/piece_estimate.h"

namespace l2l::tools {
namespace {

using compiler::Graph;
using compiler::Op;
using compiler::OpKind;
using compiler::Region;
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
  Estimate(const BlockCase& block, const GpuRates& gpu) : block_(block), gpu_(gpu) {}

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
        sum.exchanges += exchanged(graph, op) / gpu_.exchange;
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

  // What a device receives. Where each has all rows, a sum is scattered and gathered, and nothing else is exchanged.
  double exchanged(const Graph& graph, const Op& op) const {
    const bool sums = op.kind == OpKind::reduce_scatter_rows;
    const auto whole = static_cast<double>(graph.value(sums ? op.inputs[0] : op.outputs[0]).bytes());
    const double once = whole * (block_.shape.shard.count - 1) / block_.shape.shard.count;
    if (block_.rows == Rows::own) return once;
    return sums ? 2 * once : 0;
  }

  double bytes(const Graph& graph, const Op& op) const {
    double sum = 0;
    for (const auto& operands : {op.inputs, op.outputs}) {
      for (const ValueId id : operands) sum += bytes(graph.value(id));
    }
    return sum;
  }
  double bytes(const Value& value) const {
    const bool parameter = value.region == Region::weights || value.region == Region::gradients;
    const bool own_rows = !parameter && value.shape[0] == block_.shape.own_rows();
    const int times = own_rows && block_.rows == Rows::whole ? block_.shape.shard.count : 1;
    return static_cast<double>(value.bytes()) * times;
  }

  const BlockCase& block_;
  const GpuRates& gpu_;
};

}  // namespace

BlockTimes block_times(const BlockCase& block, const GpuRates& gpu) {
  const models::Model model = models::make_gpt2(block.shape);
  Graph forward = model.type(model.block(1)).forward;
  if (block.attention == Attention::core) forward = with_core_attention(std::move(forward));
  const compiler::Visits visits =
      compiler::differentiate(forward, compiler::remat::values_to_save(forward, block.policy));
  const Estimate estimate(block, gpu);
  return {estimate.time(compiler::fuse(visits.forward)), estimate.time(compiler::fuse(visits.backward))};
}

}  // namespace l2l::tools
