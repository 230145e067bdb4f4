// Sets of blocks that meet pairwise, of problems with several streams, where lifetimes are no intervals.
#pragma once

#include <span>

#include "device/planner/search_graph.h"

namespace l2l::device::planner {

// For each block sets that hold it, grown greedily: by size, and, while that takes no more than a moment, by the bytes
// its neighbours share with it. Sorted, no set twice.
Rows heavy_cliques(const Rows& meetings, std::span<const Bytes> sizes);

}  // namespace l2l::device::planner
