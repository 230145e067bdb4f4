// A planned graph: a list of launches whose operands are (region, offset). What the executor of a backend walks.
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
  Op op;                   // kind and attributes; value ids refer to Program::graph
  std::vector<Operand> operands;  // inputs, then outputs
  Operand workspace;              // in scratch
  Bytes workspace_bytes = 0;
};

struct Program {
  Graph graph;
  std::vector<Launch> launches;
  Bytes scratch_bytes = 0;
};

// Workspace that a backend's kernel for op `index` of `graph` needs.
using WorkspaceQuery = std::function<Bytes(const Graph& graph, std::size_t index)>;

inline constexpr Bytes kScratchAlignment = 64;  // of the host: a cache line, and the widest vector

// Assigns scratch offsets, multiples of `alignment` (a power of two), by lifetime (planner/) and checks them with the
// independent validator. Throws Error when the validator objects.
Program plan_program(const Graph& graph, const WorkspaceQuery& workspace, Bytes alignment = kScratchAlignment);

}  // namespace l2l::compiler
