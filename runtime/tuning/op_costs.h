// What each op of a layer's graph takes on this machine: the weights with which recomputation is decided.
#pragma once

#include <vector>

#include "runtime/tuning/step_costs.h"

namespace l2l::runtime {

// Of each op of `graph`, run alone, in their order; ops that are alike are measured once. `costs` must be allowed to
// measure.
std::vector<Cost> op_costs(StepCosts& costs, device::Device& device, const compiler::Graph& graph, LayerIndex layer);

// Op `index` of `graph` as a graph of its own, with what ops make, itself or others, in Region::saved.
compiler::Graph alone(const compiler::Graph& graph, std::size_t index);

}  // namespace l2l::runtime
