// A graph with memory assigned: launches whose operands are (region, offset). A device executes them in order.
#pragma once

#include <functional>
#include <vector>

#include "compiler/ir/graph.h"

namespace l2l::compiler {

struct Operand {
  Region region;
  Bytes offset;
};

struct Launch {
  Op op;                          // kind and attributes; value ids refer to Program::graph
  std::vector<Operand> operands;  // inputs, then outputs
  Operand workspace;              // in scratch
  Bytes workspace_bytes = 0;
};

struct Program {
  Graph graph;
  std::vector<Launch> launches;
  Bytes scratch_bytes = 0;
};

// Bytes of workspace that a device's kernel for op `index` of `graph` needs.
using WorkspaceQuery = std::function<Bytes(const Graph& graph, std::size_t index)>;

inline constexpr Bytes kScratchAlignment = 64;  // on the host: a cache line, and the widest vector

// Validates the graph, assigns scratch offsets (multiples of `alignment`, a power of two) by lifetime, and checks them
// with validate() (planner.h). Throws Error when either check fails.
Program plan_program(const Graph& graph, const WorkspaceQuery& workspace, Bytes alignment = kScratchAlignment);

}  // namespace l2l::compiler
