// Value orders of the exact search: which block is tried first.
#pragma once

#include <vector>

#include "compiler/memory/search/search_graph.h"

namespace l2l::compiler::memory {

using Ranks = std::vector<std::uint32_t>;  // per block; the smallest is tried first

inline constexpr std::size_t kSearchOrders = 7;

// Orders 0 to 4 sort by width (number of sections or neighbours), size, area and surrounding load, descending; 5 and 6
// by time. From kSearchOrders on they repeat, with random displacements that depend on `order` and `seed`.
Ranks search_order(const SearchGraph& graph, std::size_t order, std::uint64_t seed);

}  // namespace l2l::compiler::memory
