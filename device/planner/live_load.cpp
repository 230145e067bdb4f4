#include <algorithm>

#include "core/checked.h"
#include "device/planner/planner.h"

namespace l2l::device::planner {

Bytes live_load(const Problem& problem) {
  struct Change {
    std::int64_t time;
    bool begins;  // ends sort before beginnings of the same time: lifetimes are half-open
    Bytes size;
  };
  std::vector<Change> changes;
  for (const Tensor& tensor : problem.tensors) {
    if (tensor.lower >= tensor.upper) continue;
    changes.push_back({tensor.lower, true, tensor.size});
    changes.push_back({tensor.upper, false, tensor.size});
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.time != b.time ? a.time < b.time : a.begins < b.begins; });
  Bytes load = 0, highest = 0;
  for (const Change& change : changes) {
    load = change.begins ? checked_add(load, change.size, "sizes alive at once") : load - change.size;
    highest = std::max(highest, load);
  }
  return highest;
}

}  // namespace l2l::device::planner
