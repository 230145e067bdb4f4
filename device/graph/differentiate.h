// Derives a layer's backward graph from its forward graph.
#pragma once

#include "device/graph/graph.h"

namespace l2l::device::graph {

// What survives from the forward to the backward visit is the layer input alone (policy "full"): the result first
// recomputes what the vector-Jacobian products read, then runs them. Dropout replays its numbers by key.
//
// A forward graph that ends in `output` reads `output_gradient` (same shape and dtype; of a stream the compute type);
// one that ends in `loss` starts from LaunchParameters::loss_scale and also writes `loss`. Gradients of values in
// `weights` at byte offset o of the wire go to `gradients` at the same element offset, f32, accumulated. dL/d `input`
// is written to `input_gradient` when the graph reads `input`. Every value is rounded to its dtype; a value with
// several consumers sums their gradients with `add`, in reverse order of consumption. Values that no op reads again are
// left out: a layer whose weights the backward pass does not read (the embedding) needs no wire bound. Throws BadInput
// when an op, or a use of a weight, has no derivative.
Graph differentiate(const Graph& forward);

}  // namespace l2l::device::graph
