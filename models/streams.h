// What lies between the layers of a model, in graphs: one activation [rows, hidden], or, of a reversible model, two
// streams of that shape, one behind the other (models/model.h).
#pragma once

#include <array>

#include "compiler/ir/graph.h"
#include "models/shape.h"

namespace l2l::models {

struct BoundaryShape {
  std::int64_t rows, hidden;  // of a microbatch
  DType compute;
  Reversible reversible = Reversible::no;

  bool streams() const { return reversible != Reversible::no; }
  DType dtype() const { return stream_dtype(reversible, compute); }
  // Of the second stream.
  Bytes offset() const { return static_cast<Bytes>(rows * hidden) * size_of(dtype()); }
};

using StreamIds = std::array<compiler::ValueId, 2>;

// Region::input as one value in the compute type: the sum of both streams. `rows`: those of the microbatch, or one of
// them.
compiler::ValueId read_input(compiler::GraphBuilder& graph, const BoundaryShape& shape, std::int64_t rows);
// Places x in Region::output, or both streams, which begin with it.
void write_output(compiler::GraphBuilder& graph, const BoundaryShape& shape, compiler::ValueId x);
// The same in a backward graph that is written by hand: the gradient of x.
compiler::ValueId read_output_gradient(compiler::GraphBuilder& graph, const BoundaryShape& shape);

// Region::input and Region::output of a reversible block.
StreamIds read_streams(compiler::GraphBuilder& graph, const BoundaryShape& shape, std::int64_t rows);
void write_streams(compiler::GraphBuilder& graph, const BoundaryShape& shape, StreamIds streams);

// Lets the embedding's backward graph say how far the streams, rebuilt in Region::input, have drifted: both began
// alike. Writes the sum of squares of what they are apart, and that of the first one, behind the loss in Region::loss
// (Model::results_bytes).
void measure_drift(compiler::Graph& embedding_backward, const BoundaryShape& shape);

}  // namespace l2l::models
