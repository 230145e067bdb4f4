// What a type of block could keep, and what each way of it takes: the menu from which recomputation is chosen.
#pragma once

#include <string>
#include <vector>

#include "compiler/remat/chain.h"
#include "runtime/plan/recomputation.h"
#include "runtime/tuning/op_costs.h"

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
  compiler::ValueId value;
  double again = 0;  // seconds that doing without it alone adds to the backward visit
};

// Costs of ops, each measured once; programs are compiled for their scratch. Thread-bound.
class BlockMenu {
 public:
  BlockMenu(StepCosts& costs, device::Device& device, LayerIndex layer)
      : costs_(costs), device_(device), layer_(layer) {}

  // The values that a block with this forward graph could keep.
  std::vector<ValueWorth> values(const compiler::Graph& forward);
  // The options for it: what the fixed policies keep, and a knapsack's choices of those values. None takes longer and
  // keeps more than another; ascending in bytes.
  std::vector<BlockOption> options(const compiler::Graph& forward, const std::vector<ValueWorth>& values);

  BlockOption option(std::string name, compiler::Visits visits);
  std::vector<Cost> costs_of(const compiler::Graph& graph) { return op_costs(costs_, device_, graph, layer_); }
  Bytes scratch_of(const compiler::Graph& graph) const;

 private:
  StepCosts& costs_;
  device::Device& device_;
  const LayerIndex layer_;
};

}  // namespace l2l::runtime
