// Chooses a recomputation policy for each layer of a chain: the least step time for which what the layers keep fits on
// the device, together with the largest arena, and in host memory.
//
// Layers of one type are interchangeable, so an answer is the number of layers per type and option. The problem is a
// knapsack with two capacities, solved by Lagrangian relaxation (Everett 1963): without integrality, an optimum lies on
// a facet of the lower convex hull of all options, and uses at most two options beyond one per type. The facets do not
// depend on the budgets. The answer is the best of all choices of which all but k layers lie on one facet (k:
// chain_search.cpp): the exact optimum of chains of at most k layers, and otherwise within `time - bound` of it.
//
// Sums of bytes are exact, so budgets are never exceeded. The set of choices considered does not depend on the budgets,
// so a larger budget never gives a longer time.
#pragma once

#include <optional>
#include <vector>

#include "compiler/remat/nanoseconds.h"
#include "core/bytes.h"

namespace l2l::compiler::remat {

// One option of a layer: times and bytes are those of all microbatches.
struct LayerOption {
  Nanoseconds forward = 0;    // compute, forward pass
  Nanoseconds backward = 0;   // compute, backward pass, recomputation included
  Bytes device = 0;           // kept on the device from the forward to the backward pass
  Bytes host = 0;             // kept in host memory
  Nanoseconds kept_d2h = 0;   // link, forward pass
  Nanoseconds kept_h2d = 0;   // link, backward pass
  Bytes arena = 0;            // peak while the layer runs; all layers share one arena
  bool weights_stay = false;  // on the device until the backward pass, which then does not load them again
};

struct LayerType {
  std::size_t layers = 0;               // their places in the chain do not matter
  Nanoseconds weights_forward_h2d = 0;  // link; 0 where weights are always on the device
  Nanoseconds weights_backward_h2d = 0;
  Nanoseconds gradients_d2h = 0;
  std::vector<LayerOption> options = {};  // at least one where there are layers
};

// Of one layer, both passes. Compute and the two directions of the link overlap: a pass takes as long as the slowest.
Nanoseconds time_of(const LayerType& type, const LayerOption& option);

struct ChainBudget {
  Bytes device = 0;  // what all layers keep, and the largest arena of the options in use
  Bytes host = 0;
};

struct ChainChoice {
  std::vector<std::vector<std::size_t>> layers = {};  // [type][option]: how many take it
  Nanoseconds time = 0;                               // of all layers, both passes
  Nanoseconds bound = 0;                              // no choice within the budgets is faster
  Bytes device = 0;                                   // as in ChainBudget
  Bytes host = 0;
  Bytes arena = 0;  // part of `device`
};

// Nothing if no choice was found that fits; for chains of several hundred layers that may miss one at the very edge of
// a budget. Deterministic. Throws BadInput when a type with layers has no option, or when a time or size could sum to
// 2^50 or more over all layers (1 PiB, 13 days).
std::optional<ChainChoice> choose(const std::vector<LayerType>& types, const ChainBudget& budget);

}  // namespace l2l::compiler::remat
