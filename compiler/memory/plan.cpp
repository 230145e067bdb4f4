#include "compiler/memory/planner.h"
#include "compiler/memory/portfolio.h"

namespace l2l::compiler::memory {

// It counts steps, not time: a program has the same plan on every machine.
Plan plan(const Problem& problem) { return solve(problem, {}).plan; }

}  // namespace l2l::compiler::memory
