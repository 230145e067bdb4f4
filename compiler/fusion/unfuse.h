// The definition of fused ops by the ops they stand for.
#pragma once

#include <cstddef>

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// Whether `kind` is one that fuse() makes.
bool is_fused(OpKind kind);

// The graph that fused op `op` of `graph` stands for. Its first values are the op's inputs, then its outputs, then
// intermediate values; all are in scratch. Throws Error when the op is not fused.
Graph unfused(const Graph& graph, const Op& op);

}  // namespace l2l::compiler
