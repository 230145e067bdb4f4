#include "compiler/autodiff/differentiate.h"

#include <algorithm>

#include "compiler/autodiff/backward.h"

namespace l2l::compiler {

std::vector<ValueId> read_by_backward(const Graph& forward) {
  Backward backward(forward);
  backward.differentiate();
  return backward.values_read();
}

Visits differentiate(const Graph& forward, const std::vector<ValueId>& saved) {
  forward.validate();
  Backward backward(forward);
  backward.differentiate();
  backward.recompute(saved);
  Visits visits{forward, backward.finish()};
  place_saved(visits.forward, saved);
  visits.forward.validate();
  return visits;
}

std::vector<ValueId> saved_values(const Graph& forward) {
  std::vector<ValueId> saved;
  for (std::size_t i = 0; i < forward.values.size(); ++i) {
    if (forward.values[i].region == Region::saved) saved.push_back(static_cast<ValueId>(i));
  }
  std::sort(saved.begin(), saved.end(),
            [&](ValueId a, ValueId b) { return forward.value(a).offset < forward.value(b).offset; });
  return saved;
}

Graph differentiate(const Graph& forward) { return differentiate(forward, {}).backward; }

}  // namespace l2l::compiler
