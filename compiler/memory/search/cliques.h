// Sets of blocks that meet pairwise, of problems with several streams, where lifetimes are no intervals.
#pragma once

#include <functional>
#include <span>

#include "compiler/memory/search/search_graph.h"

namespace l2l::compiler::memory {

// For each block sets that hold it, grown greedily: by size, and, while that takes no more than a moment, by the bytes
// its neighbours share with it. Sorted, no set twice. When `stop` says so, blocks are left out.
Rows heavy_cliques(const Rows& meetings, std::span<const Bytes> sizes, const std::function<bool()>& stop);

}  // namespace l2l::compiler::memory
