// What is live within the backward visit: recomputation under a budget of scratch, decided when the program is built.
// Dynamic Tensor Rematerialization (dtr/) runs over the ops of the visit under many budgets and heuristics; what it
// evicts and recomputes is written down as a graph, so that nothing is decided in the step. Single assignment stays: a
// value that is recomputed is a new one, and a value is dropped after its last reader.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/remat/nanoseconds.h"

namespace l2l::compiler::remat {

struct StagedProgram {
  Graph graph;
  Nanoseconds time = 0;  // of all its ops
  Bytes scratch = 0;     // that the planner needs for it, workspaces included
  std::string source;    // "in order", or heuristic and budget that gave it
};

// The visit as it is to be staged.
struct StageProblem {
  const Graph& graph;
  std::vector<Nanoseconds> times;                       // of each op
  std::function<Bytes(const Graph& graph)> scratch_of;  // what a device's program for a graph needs
};

// Programs that do the same, ascending in scratch and descending in time: the first is the smallest that was found, the
// last the fastest. Deterministic; the same whatever budget one has in mind, so that more memory never costs time.
std::vector<StagedProgram> stage(const StageProblem& problem);

// The fastest program of at most `budget` bytes. Throws OutOfMemory naming the least that would do.
const StagedProgram& fastest_within(const std::vector<StagedProgram>& programs, Bytes budget);

}  // namespace l2l::compiler::remat
