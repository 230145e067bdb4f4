#include "device/planner/bounds.h"

#include <algorithm>
#include <tuple>

namespace l2l::device::planner {

Bytes live_load(const Problem& problem) {
  std::vector<std::tuple<Time, bool, Bytes>> changes;  // (time, begins, size); ends sort before beginnings
  for (Index t = 0; t < problem.tensors.size(); ++t) {
    if (!problem.alive(t)) continue;
    changes.emplace_back(problem.begin_of(t)[0], true, problem.tensors[t].size);
    changes.emplace_back(problem.end_of(t)[0], false, problem.tensors[t].size);
  }
  std::sort(changes.begin(), changes.end());
  Bytes load = 0, highest = 0;
  for (const auto& [time, begins, size] : changes) {
    load = begins ? load + size : load - size;
    highest = std::max(highest, load);
  }
  return highest;
}

}  // namespace l2l::device::planner
