// Several ops in one kernel: less traffic to memory, the same values.
#pragma once

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// `graph`, which is valid, with pairs and triples of ops replaced by the fused ops of graph.h. Every value that lives
// in a bound region is still written, with the same meaning; unfused() of each new op gives the ops it replaces. For a
// backend that has kernels of fused ops to call before planning. Values that only connected the replaced ops are gone,
// so value ids differ from those of `graph`.
Graph fuse(const Graph& graph);

}  // namespace l2l::compiler
