// What lies in memory now: the state that the core changes and heuristics read.
#pragma once

#include <vector>

#include "compiler/remat/dtr/graph.h"

namespace l2l::compiler::remat::dtr {

enum class Life : std::uint8_t {
  unborn,    // its op has not run yet
  material,  // in memory
  evicted,   // can be recomputed
  banished   // gone for good
};

struct StorageState {
  Life life = Life::unborn;
  bool pinned = false;           // is never evicted; only banishing takes it
  Index locks = 0;               // arguments of ops that are about to run, and the pin
  std::uint64_t references = 0;  // that the program holds to its tensors
  Nanoseconds last_access = 0;
};

struct State {
  Graph graph;
  std::vector<StorageState> storages;  // as graph.storages()
  std::vector<char> defined;           // as graph.tensors(). An alias may be undefined though its storage is material
  Nanoseconds clock = 1;
  Bytes memory = 0;

  bool evicted(Index storage) const { return storages[storage].life == Life::evicted; }
  bool material(Index storage) const { return storages[storage].life == Life::material; }
};

}  // namespace l2l::compiler::remat::dtr
