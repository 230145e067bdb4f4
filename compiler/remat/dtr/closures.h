// The heuristics dtr and msps (heuristic.h): an eviction costs as much as all evicted storages it would be joined to.
#pragma once

#include "compiler/remat/dtr/heuristic.h"
#include "compiler/remat/dtr/walk.h"

namespace l2l::compiler::remat::dtr {

// Thread-bound. Costs are cached until something that they depend on changes.
class EvictedClosure final : public Heuristic {
 public:
  enum class Kind : std::uint8_t { dtr, msps };

  EvictedClosure(const State& state, Kind kind) : state_(state), kind_(kind), walk_(state) {}

  double score(Index storage, double bound) override;
  void on_added(Index op) override;
  void on_evicted(Index storage) override { forget_reachable(storage); }
  void on_returned(Index storage) override { forget_reachable(storage); }

 private:
  Time closure_cost(Index storage);
  void forget(Index storage) { known_[storage] = 0; }
  void forget_reachable(Index storage);
  void on_joined(Index storage);

  const State& state_;
  const Kind kind_;
  Walk walk_;
  std::vector<Time> cost_;
  std::vector<char> known_;
  std::vector<std::uint64_t> counted_;  // the epoch in which each storage was last counted
  std::uint64_t epoch_ = 0;
};

}  // namespace l2l::compiler::remat::dtr
