// Recomputation policies: which values of a layer's forward pass are kept for its backward pass, besides the layer
// input. differentiate() (compiler/autodiff/differentiate.h) derives both programs from that choice.
#pragma once

#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace l2l::compiler::remat {

enum class Policy : std::uint8_t {
  full,       // keep nothing: recompute all that the backward pass reads
  none,       // keep all that it reads, but for results of the layer that cheap ops make again
  selective,  // keep all but core attention, where that is separate ops (Korthikanti et al. 2022, section 5)
  min_cut,    // keep the fewest bytes from which the rest is recomputed without matrix products (He and Yu 2023)
};
// Throws BadInput for an unknown name.
Policy parse_policy(std::string_view name);
std::string_view name_of(Policy policy);

// The values to keep, which are results of ops of `forward`, in the order of those ops. Throws BadInput when the graph
// has no derivative.
std::vector<ValueId> values_to_save(const Graph& forward, Policy policy);

}  // namespace l2l::compiler::remat
