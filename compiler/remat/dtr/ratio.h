// Arithmetic shared by the heuristics.
#pragma once

#include <limits>

#include "compiler/remat/dtr/state.h"

namespace l2l::compiler::remat::dtr {

inline double ratio(Time cost, double denominator) {
  return denominator > 0 ? static_cast<double>(cost) / denominator : std::numeric_limits<double>::infinity();
}

inline double size_times_staleness(const State& state, Index storage) {
  return static_cast<double>(state.graph.storages()[storage].size) *
         static_cast<double>(state.clock - state.storages[storage].last_access);
}

}  // namespace l2l::compiler::remat::dtr
