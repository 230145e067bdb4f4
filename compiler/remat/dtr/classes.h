// The heuristic dtr_eq (heuristic.h): adjacent evicted storages form classes with a running cost, in a union-find. A
// storage that returns subtracts its cost from its class, but the class is not split.
#pragma once

#include "compiler/remat/dtr/heuristic.h"

namespace l2l::compiler::remat::dtr {

// `state` must outlive it. Thread-bound.
std::unique_ptr<Heuristic> make_evicted_classes(const State& state);

}  // namespace l2l::compiler::remat::dtr
