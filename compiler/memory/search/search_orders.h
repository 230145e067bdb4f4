// In which order blocks are tried, as ranks: the smaller first.
#pragma once

#include <vector>

#include "compiler/memory/search/search_graph.h"

namespace l2l::compiler::memory {

using Ranks = std::vector<std::uint32_t>;  // per block

inline constexpr std::size_t kSearchOrders = 7;

// Number `order` of those that look at width (sections or meetings), size, area and the load around a block, the larger
// first, and two by time. Beyond kSearchOrders: the same again, with each block moved by chance; the same for the same
// seed.
Ranks search_order(const SearchGraph& graph, std::size_t order, std::uint64_t seed);

}  // namespace l2l::compiler::memory
