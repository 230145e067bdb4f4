// Which policy each layer of a chain takes: the least time of a step in which what the layers keep fits on the device,
// beside the largest arena, and in host memory. Layers of a type are alike, so an answer is how many of them take each
// option, and neither time nor memory of the solver grows with depth.
//
// Without whole numbers the best choice is one of a few faces of the convex hull of all options, on which at most two
// options are used beyond one per type (Lagrange; the faces are found once, whatever the budgets). The answer is the
// best of all choices of which all but k layers lie on such a face, k as below. It is the exact optimum where a chain
// has at most k layers, and in general within `time - bound` of it, which is the price of a few layers.
//
// Budgets are compared with exact sums, so they are never exceeded. The choices among which it looks do not depend on
// the budgets, so time never rises when a budget does.
#pragma once

#include <optional>
#include <vector>

#include "core/bytes.h"
#include "compiler/remat/nanoseconds.h"

namespace l2l::compiler::remat {

// One policy of one layer, for all microbatches of a visit.
struct LayerOption {
  Nanoseconds forward = 0;    // compute on the way up
  Nanoseconds backward = 0;   // compute on the way down, recomputation included
  Bytes device = 0;           // kept on the device from one visit to the other
  Bytes host = 0;             // kept in host memory
  Nanoseconds kept_d2h = 0;   // link, on the way up
  Nanoseconds kept_h2d = 0;   // link, on the way down
  Bytes arena = 0;            // peak while either visit runs; one arena serves all layers
  bool weights_stay = false;  // from one visit to the other: no link for them on the way down
};

struct LayerType {
  std::size_t layers = 0;          // of this type, wherever in the chain; their order changes nothing
  Nanoseconds weights_up_h2d = 0;  // link per visit; 0 where weights stay on the device
  Nanoseconds weights_down_h2d = 0;
  Nanoseconds gradients_d2h = 0;
  std::vector<LayerOption> options = {};  // one at least where there are layers
};

// Both visits. Compute and the two directions of the link run beside each other, so each visit takes as long as the
// slowest of them.
Nanoseconds time_of(const LayerType& type, const LayerOption& option);

struct ChainBudget {
  Bytes device = 0;  // kept bytes of all layers + the largest arena of the options in use
  Bytes host = 0;
};

struct ChainChoice {
  std::vector<std::vector<std::size_t>> layers = {};  // [type][option]: how many take it
  Nanoseconds time = 0;                               // of all layers, both visits
  Nanoseconds bound = 0;  // no choice within the budgets takes less; `time` where that is proved
  Bytes device = 0;       // as in ChainBudget
  Bytes host = 0;
  Bytes arena = 0;  // of `device`
};

struct ChainAnswer {
  std::optional<ChainChoice> choice = {};
  // Without a choice: the least budget of each kind that would do beside the other one as it is; none where no number
  // of bytes would. Of several hundred layers, choose() may miss the one choice that there is at just that budget.
  std::optional<Bytes> least_device = {}, least_host = {};
};

// k is the number of layers where up to kEveryChoice choices are all there are, and otherwise the largest one for which
// there are at most kMostStrays ways to give up to k layers some option: 3 of 12 options of one type, 2 of three types
// with 12 each. More changes the answer by a few millionths (96 layers) and takes longer.
inline constexpr std::size_t kEveryChoice = 100000, kMostStrays = 1000;

// Deterministic. Throws BadInput when a type with layers has no option, or when times or bytes of all layers at their
// largest reach 2^52 (4 PiB, 52 days).
ChainAnswer choose(const std::vector<LayerType>& types, const ChainBudget& budget,
                   std::size_t most_strays = kMostStrays);

}  // namespace l2l::compiler::remat
