#include "device/planner/blocks.h"
#include "device/planner/greedy.h"
#include "device/planner/planner.h"

namespace l2l::device::planner {

Plan plan(const Problem& problem) {
  check(problem);
  const Blocks blocks(problem);
  Plan best;
  for (const Greedy& greedy : all_greedy()) {
    Plan found = blocks.plan(place(blocks, greedy).offsets);
    if (best.offsets.empty() || found.footprint < best.footprint) best = std::move(found);
  }
  return best;
}

}  // namespace l2l::device::planner
