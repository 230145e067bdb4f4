// Holds an op against its row of the op table.
#pragma once

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// The outputs (dtype and shape) that `op` makes of its inputs; op.outputs is not read. `index` is the op's place, for
// messages. Throws BadInput naming op and operands.
std::vector<Value> infer_outputs(const Graph& graph, const Op& op, std::size_t index);

// Also holds op.outputs against the table.
void check_op(const Graph& graph, const Op& op, std::size_t index);

// "x f32 [2, 3]"
std::string describe(const Value& value);

}  // namespace l2l::compiler
