// What programs of split layers exchange with the other devices.
#pragma once

#include "compiler/ir/graph.h"

namespace l2l::compiler {

// Of a row that a head has with a split table: the highest logit, the sum of exponentials, and the target's logit.
inline constexpr Bytes kRowStatisticsBytes = 16;

// Bytes that a device gets from the others when it runs the op, or the graph.
Bytes received_bytes(const Graph& graph, const Op& op);
Bytes received_bytes(const Graph& graph);

}  // namespace l2l::compiler
