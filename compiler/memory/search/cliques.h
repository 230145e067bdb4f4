// Cliques of the interference graph, for problems with several streams, where lifetimes are not intervals.
#pragma once

#include <functional>

#include "compiler/memory/search/search_graph.h"

namespace l2l::compiler::memory {

// Grows cliques greedily from every block: neighbours by descending size, and, unless the graph is too large, by the
// bytes of the neighbours they share. Rows are sorted and distinct. When stop() becomes true, blocks are left out.
Rows heavy_cliques(const Blocks& blocks, const std::function<bool()>& stop);

}  // namespace l2l::compiler::memory
