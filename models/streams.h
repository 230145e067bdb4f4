// The ends of a layer's graph: what it reads from the layer before and writes for the next one, and what it is told of
// each row. Between layers lies one activation [rows, hidden], or two streams of that shape in a reversible model
// (models/model.h).
#pragma once

#include <array>
#include <optional>
#include <span>

#include "compiler/ir/graph.h"
#include "models/shape.h"

namespace l2l::models {

using StreamIds = std::array<compiler::ValueId, 2>;

// Region::input as one value in the compute type, [rows, hidden]; of two streams, their sum. `rows`: those of a
// microbatch, or one of them.
compiler::ValueId read_input(compiler::GraphBuilder& graph, const TransformerShape& shape, std::int64_t rows);
// Places x in Region::output; two streams both begin with it.
void write_output(compiler::GraphBuilder& graph, const TransformerShape& shape, compiler::ValueId x);
// For a backward graph that is written by hand: the gradient of what write_output() placed.
compiler::ValueId read_output_gradient(compiler::GraphBuilder& graph, const TransformerShape& shape);

// A line of Region::rows, [rows], or several neighbours, [lines, rows]. Nothing where rows are not told apart
// (TransformerShape::packed).
std::optional<compiler::ValueId> read_rows(compiler::GraphBuilder& graph, const TransformerShape& shape,
                                           compiler::RowField field, std::int64_t lines = 1);

// Writes Region::rows, [4, rows], for sequences that are one document each.
void write_single_documents(std::span<std::int32_t> fields, std::int64_t sequence);

// Region::input and Region::output of a reversible block.
StreamIds read_streams(compiler::GraphBuilder& graph, const TransformerShape& shape, std::int64_t rows);
void write_streams(compiler::GraphBuilder& graph, const TransformerShape& shape, StreamIds streams);

// Lets the embedding's backward graph measure how far the streams that blocks have rebuilt into Region::input have
// drifted: in exact arithmetic they are equal. Writes the sum of squares of their difference, and that of the first
// stream, behind the loss in Region::loss (Model::results_bytes).
void measure_drift(compiler::Graph& embedding_backward, const TransformerShape& shape);

}  // namespace l2l::models
