// Derives a layer's backward graph from its forward graph.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// Of each value in Region::saved; what the widest loads of a GPU's kernels and products ask for.
inline constexpr Bytes kSavedAlignment = 256;

// The two visits of a layer.
struct Visits {
  Graph forward, backward;
};

// The results of forward ops that the vector-Jacobian products read, in the order in which they are made: what has to
// survive from the forward to the backward visit or to be recomputed there.
std::vector<ValueId> read_by_backward(const Graph& forward);

// `saved`, results of forward ops, survive: the forward graph leaves them in Region::saved, in that order, where the
// backward graph reads them. It recomputes what else the vector-Jacobian products read, from these and the layer input:
// each op right before the first one that needs it, or, with nothing saved, all of them first, since the first product
// needs nearly all. Dropout replays its numbers by key.
//
// A forward graph that ends in `output` reads `output_gradient` (same shape and dtype; of a stream the compute type);
// one that ends in `loss` starts from LaunchParameters::loss_scale and also writes `loss`. Gradients of values in
// `weights` at byte offset o of the wire go to `gradients` at the same element offset, f32, accumulated. dL/d `input`
// is written to `input_gradient` when the graph reads `input`. Every value is rounded to its dtype; a value with
// several consumers sums their gradients with `add`, in reverse order of consumption. Values that no op reads again are
// left out: a layer whose weights the backward pass does not read (the embedding) needs no wire bound. Throws BadInput
// when an op, or a use of a weight, has no derivative, or a saved value is none that can be.
Visits differentiate(const Graph& forward, const std::vector<ValueId>& saved);

// With nothing saved but the layer input (policy "full").
Graph differentiate(const Graph& forward);

}  // namespace l2l::compiler
