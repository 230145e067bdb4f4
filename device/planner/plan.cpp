#include "device/planner/planner.h"
#include "device/planner/portfolio.h"

namespace l2l::device::planner {

// Of few tensors a search is short. It counts steps, not time: a program has the same plan on every machine.
Plan plan(const Problem& problem) {
  constexpr std::size_t kFew = 200;
  return solve(problem, {.searches = problem.tensors.size() <= kFew}).plan;
}

}  // namespace l2l::device::planner
