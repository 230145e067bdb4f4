// Derives the backward graph of a reversible layer: one that needs no input of its forward visit.
#pragma once

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// `forward` couples streams (Gomez et al., 2017, equations 8 to 10): each reversible_add() adds to one stream a branch of the
// others, as the last op of that branch. So the sums can be undone from the last to the first, and the result runs from
// the layer's output to its input: `input` holds the output of the forward visit, `output` gets its input, rebuilt;
// gradients lie where those of differentiate() do, and have the same bits if the rebuilt input has. The ops of a branch
// run once, for the stream and for the gradients alike.
//
// Exact for streams in fixed point. In floating point x + b - b is not always x (Gomez et al., section 3.3).
// Throws BadInput when the graph does not end in a reversible_add(), or a branch reads what is not rebuilt by then.
Graph differentiate_reversible(const Graph& forward);

}  // namespace l2l::compiler
