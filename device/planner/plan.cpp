#include "device/planner/planner.h"
#include "device/planner/portfolio.h"

namespace l2l::device::planner {

Plan plan(const Problem& problem) { return solve(problem, {}).plan; }

}  // namespace l2l::device::planner
