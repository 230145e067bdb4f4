// Derives a layer's backward graph from its forward graph.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// Of each value in Region::saved: what the widest loads of GPU kernels and matrix products require.
inline constexpr Bytes kSavedAlignment = 256;

struct Visits {
  Graph forward, backward;
};

// The results of forward ops that the backward pass reads, in the order in which they are made. They have to be saved,
// or recomputed in the backward pass.
std::vector<ValueId> read_by_backward(const Graph& forward);

// The same graph, but for results of the layer that its backward pass reads, too, and that are costly to make again:
// they become copies of values in scratch, which can be kept. Throws BadInput as read_by_backward() does.
Graph with_keepable_results(Graph forward);

// The forward and backward graphs of a layer, by reverse-mode differentiation.
//
// The forward graph writes `saved`, which are results of its ops, to Region::saved in that order. The backward graph
// reads them there, and recomputes from them and the layer input what else it needs: each op right before its first
// use; with nothing saved, all of them first. Dropout repeats its random numbers by key.
//
// The backward graph of a graph that ends in `output` reads `output_gradient` (same shape and dtype; for a stream the
// compute type). That of one that ends in `loss` starts from LaunchParameters::loss_scale and also writes `loss`. The
// gradient of a weight is accumulated in f32 in `gradients`, at the element offset of the weight. dL/d `input` is
// written to `input_gradient` if the graph reads `input`. Every value is rounded to its dtype; gradients of a value
// with several consumers are summed with `add`, in reverse order of consumption. Unused values are left out, so that a
// layer whose backward pass does not read its weights needs none bound. Throws BadInput when an op, or a use of a
// weight, has no derivative, or when a value cannot be saved.
Visits differentiate(const Graph& forward, const std::vector<ValueId>& saved);

// The values that the forward graph of Visits saves, in their order: `saved` of what made it.
std::vector<ValueId> saved_values(const Graph& forward);

// The backward graph when only the layer input is saved (policy "full").
Graph differentiate(const Graph& forward);

// The backward graph of a reversible layer, which needs no values saved from the forward pass.
//
// `forward` couples streams (Gomez et al., "The Reversible Residual Network", 2017, equations 8 to 10): the last op of
// each branch, or the last few, is a reversible_add of a result of the branch to another stream, or a split_streams
// that begins one with it. There may be any number of streams, of any shapes. The returned graph undoes these sums from
// the last to the first: its `input` is the output of the forward pass, its `output` the rebuilt input. Gradients are
// placed like those of differentiate(), and have the same bits if the rebuilt input has. Each branch runs once, for
// both purposes.
//
// Exact for fixed-point streams. In floating point x + b - b is not always x (section 3.3). Throws BadInput when the
// graph does not end in one of the two, or when a branch reads a value that is not rebuilt by then.
Graph differentiate_reversible(const Graph& forward);

}  // namespace l2l::compiler
