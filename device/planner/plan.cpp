#include "device/planner/planner.h"
#include "device/planner/portfolio.h"

namespace l2l::device::planner {

// It counts steps, not time: a program has the same plan on every machine.
Plan plan(const Problem& problem) { return solve(problem, {}).plan; }

}  // namespace l2l::device::planner
