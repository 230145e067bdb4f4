// dtr and msps: the cost of all evicted storages that an eviction would join, kept until something near changes.
#pragma once

#include "compiler/remat/dtr/heuristic.h"
#include "compiler/remat/dtr/walk.h"

namespace l2l::compiler::remat::dtr {

// The cost of the evicted storages reached from a material one, per storage. Thread-bound.
class Closures {
 public:
  Closures(const State& state, bool descendants) : state_(state), descendants_(descendants), walk_(state) {}

  Nanoseconds cost(Index storage);
  void on_added(Index op);
  void on_changed(Index storage);  // evicted now, or no longer

 private:
  void forget(Index storage) { known_[storage] = 0; }
  void forget_around(Index storage);
  void joined(Index storage);

  const State& state_;
  const bool descendants_;  // beside ancestors
  Walk walk_;
  std::vector<Nanoseconds> cost_;
  std::vector<char> known_;
  std::vector<std::uint64_t> counted_;  // the turn in which each storage was last counted
  std::uint64_t turn_ = 0;
};

class EvictedNeighbourhood final : public Heuristic {
 public:
  explicit EvictedNeighbourhood(const State& state) : state_(state), closures_(state, true) {}
  double score(Index storage, double bound) override;
  void on_added(Index op) override { closures_.on_added(op); }
  void on_evicted(Index storage) override { closures_.on_changed(storage); }
  void on_returned(Index storage) override { closures_.on_changed(storage); }

 private:
  const State& state_;
  Closures closures_;
};

class EvictedAncestors final : public Heuristic {
 public:
  explicit EvictedAncestors(const State& state) : state_(state), closures_(state, false) {}
  double score(Index storage, double bound) override;
  void on_added(Index op) override { closures_.on_added(op); }
  void on_evicted(Index storage) override { closures_.on_changed(storage); }
  void on_returned(Index storage) override { closures_.on_changed(storage); }

 private:
  const State& state_;
  Closures closures_;
};

}  // namespace l2l::compiler::remat::dtr
