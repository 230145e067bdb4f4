// Static recomputation within one program, to fit a budget of scratch memory. Dynamic Tensor Rematerialization (dtr/)
// is run over the program's ops at compile time, under many budgets and heuristics, and its evictions and
// recomputations are written down as a new graph. The graph stays in single assignment: a recomputed value is a new
// value.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/remat/nanoseconds.h"

namespace l2l::compiler::remat {

struct StagedProgram {
  Graph graph;
  Nanoseconds time = 0;  // of all ops
  Bytes scratch = 0;     // as planned, workspaces included
  std::string source;    // "in order" (the original), or heuristic and budget
};

struct StageProblem {
  const Graph& graph;
  std::vector<Nanoseconds> times;                       // of each op
  std::function<Bytes(const Graph& graph)> scratch_of;  // scratch bytes of a device's program for a graph
};

// Equivalent programs, none dominated: ascending in scratch, descending in time. Deterministic, and independent of any
// budget, so that more memory never costs time.
std::vector<StagedProgram> stage(const StageProblem& problem);

// The fastest program of at most `budget` bytes of scratch. Throws OutOfMemory naming the smallest possible budget.
const StagedProgram& fastest_within(const std::vector<StagedProgram>& programs, Bytes budget);

}  // namespace l2l::compiler::remat
