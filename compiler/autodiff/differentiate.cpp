#include "compiler/autodiff/differentiate.h"

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

Graph differentiate(const Graph& forward) { return differentiate(forward, {}).backward; }

}  // namespace l2l::compiler
