#include "device/graph/differentiate.h"

#include "device/graph/backward.h"

namespace l2l::device::graph {

Graph differentiate(const Graph& forward) {
  forward.validate();
  Backward backward(forward);
  backward.differentiate();
  backward.recompute();
  return backward.finish();
}

}  // namespace l2l::device::graph
