// Operator fusion: several ops in one kernel, for less memory traffic and the same values.
#pragma once

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// Replaces pairs and triples of ops of a valid graph by fused ops (ops.def); unfused() gives the ops that a fused op
// stands for. Values in bound regions are still written. Values that only connected replaced ops are removed, so value
// ids change. For devices that have kernels for fused ops, before plan_program().
Graph fuse(const Graph& graph);

}  // namespace l2l::compiler
