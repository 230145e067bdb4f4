// The eviction heuristics compared by Kirisame et al., "Dynamic Tensor Rematerialization" (ICLR 2021). With c the cost
// of a storage, and its staleness the time since its last access:
//
//   dtr      (c + cost of the evicted ancestors and descendants reached through evicted storages) / (size x staleness)
//   dtr_eq   (c + cost of the distinct union-find classes of evicted neighbours) / (size x staleness)
//   local    c / (size x staleness)
//   lru      last access
//   size     1 / size
//   msps     (c + cost of the evicted ancestors) / size
//
// A score whose denominator is 0 is infinite.
#pragma once

#include <limits>
#include <memory>
#include <string>
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

// What is in memory now. The rematerializer changes this state, heuristics read it.
struct State {
  Graph graph;
  std::vector<StorageState> storages;  // as graph.storages()
  std::vector<char> defined;  // as graph.tensors(): in memory. An alias may be undefined though its storage is material
  Time clock = 1;
  Bytes memory = 0;

  bool evicted(Index storage) const { return storages[storage].life == Life::evicted; }
  bool material(Index storage) const { return storages[storage].life == Life::material; }
};

enum class Score : std::uint8_t { dtr, dtr_eq, local, lru, size, msps };
const std::vector<std::string>& score_names();  // in the order of Score

// Thread-bound.
class Heuristic {
 public:
  virtual ~Heuristic() = default;

  // The score of a material storage; the smallest is evicted. A score above `bound` may be returned as any number above
  // it.
  virtual double score(Index storage, double bound) = 0;

  // Notifications, after the state has changed.
  virtual void on_added(Index /*op*/) {}  // its tensors are in the graph and unborn
  virtual void on_evicted(Index /*storage*/) {}
  virtual void on_returned(Index /*storage*/) {}  // was evicted, is material or banished
};

inline double ratio(Time cost, double denominator) {
  return denominator > 0 ? static_cast<double>(cost) / denominator : std::numeric_limits<double>::infinity();
}

inline double size_times_staleness(const State& state, Index storage) {
  return static_cast<double>(state.graph.storages()[storage].size) *
         static_cast<double>(state.clock - state.storages[storage].last_access);
}

// `state` must outlive them.
std::unique_ptr<Heuristic> make_evicted_classes(const State& state);  // dtr_eq (classes.cpp)
std::unique_ptr<Heuristic> make_heuristic(Score score, const State& state);

}  // namespace l2l::compiler::remat::dtr
