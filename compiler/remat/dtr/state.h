// What is in memory now. The rematerializer changes this state, heuristics read it.
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
  bool pinned = false;           // never evicted, but may be banished
  Index locks = 0;               // by ops that are about to read it, and by the pin
  std::uint64_t references = 0;  // of the program, to its tensors
  Time last_access = 0;
};

struct State {
  Graph graph;
  std::vector<StorageState> storages;  // as graph.storages()
  std::vector<char> defined;  // as graph.tensors(): in memory. An alias may be undefined though its storage is material
  Time clock = 1;
  Bytes memory = 0;

  bool evicted(Index storage) const { return storages[storage].life == Life::evicted; }
  bool material(Index storage) const { return storages[storage].life == Life::material; }
};

}  // namespace l2l::compiler::remat::dtr
