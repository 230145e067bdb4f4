// Derives the backward graph of a reversible layer, which needs no values saved from the forward pass.
#pragma once

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// `forward` couples streams (Gomez et al., "The Reversible Residual Network", 2017, equations 8 to 10): the last op of
// each branch is a reversible_add of the branch's result to another stream. The returned graph undoes these sums from
// the last to the first: its `input` is the output of the forward pass, its `output` the rebuilt input. Gradients are
// placed like those of differentiate(), and have the same bits if the rebuilt input has. Each branch runs once, for
// both purposes.
//
// Exact for fixed-point streams. In floating point x + b - b is not always x (section 3.3). Throws BadInput when the
// graph does not end in a reversible_add, or when a branch reads a value that is not rebuilt by then.
Graph differentiate_reversible(const Graph& forward);

}  // namespace l2l::compiler
