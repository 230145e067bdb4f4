// What fused ops mean: the ops they stand for.
#pragma once

#include <cstddef>

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// Whether `kind` is one that fuse() makes.
bool is_fused(OpKind kind);

// The ops that `op` of `graph`, a fused one, stands for. Values 0, 1, ... are the op's inputs, then its outputs (those
// that it has); values behind them are the intermediate ones, in the dtype that the ops give them. All are in scratch.
// Throws Error when the op is not a fused one.
Graph unfused(const Graph& graph, const Op& op);

}  // namespace l2l::compiler
