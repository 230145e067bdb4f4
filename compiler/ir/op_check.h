// Shape and dtype checks of ops, by their rows of the op table.
#pragma once

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// The dtypes and shapes of the outputs, from inputs and attributes; op.outputs is not read. `index`: the op's position,
// for messages. Throws BadInput naming op and operands.
std::vector<Value> infer_outputs(const Graph& graph, const Op& op, std::size_t index);

// Checks inputs, outputs and attributes. Throws like infer_outputs().
void check_op(const Graph& graph, const Op& op, std::size_t index);

// "x f32 [2, 3]"
std::string describe(const Value& value);

}  // namespace l2l::compiler
