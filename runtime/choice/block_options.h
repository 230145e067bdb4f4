// What a type of block could keep, and what each way of it takes: the menu from which recomputation is chosen.
#pragma once

#include <string>
#include <vector>

#include "device/recompute/chain.h"
#include "runtime/costs/op_costs.h"
#include "runtime/planning/recomputation.h"

namespace l2l::runtime {

// Both visits of one microbatch.
struct BlockOption {
  BlockPolicy policy;
  Cost forward, backward;  // sums over their ops
  Bytes saved = 0;         // beside the layer input
  Bytes forward_scratch = 0, backward_scratch = 0;
};

// A value that the backward visit reads: kept, or made again.
struct ValueWorth {
  device::graph::ValueId value;
  double again = 0;  // seconds that doing without it alone adds to the backward visit
};

// Costs of ops, each measured once; programs are compiled for their scratch. Thread-bound.
class BlockMenu {
 public:
  BlockMenu(StepCosts& costs, device::Device& device, LayerIndex layer)
      : costs_(costs), device_(device), layer_(layer) {}

  // The values that a block with this forward graph could keep.
  std::vector<ValueWorth> values(const device::graph::Graph& forward);
  // The options for it: what the fixed policies keep, and a knapsack's choices of those values. None takes longer and
  // keeps more than another; ascending in bytes.
  std::vector<BlockOption> options(const device::graph::Graph& forward, const std::vector<ValueWorth>& values);

  BlockOption option(std::string name, device::graph::Visits visits);
  std::vector<Cost> costs_of(const device::graph::Graph& graph) { return op_costs(costs_, device_, graph, layer_); }
  Bytes scratch_of(const device::graph::Graph& graph) const;

 private:
  StepCosts& costs_;
  device::Device& device_;
  const LayerIndex layer_;
};

}  // namespace l2l::runtime
