// dtr_eq: evicted storages that touch form classes with a running cost, in a union-find. A storage that returns takes
// its cost away and leaves, but does not split its class: what it joined stays joined (phantom links). Thread-bound.
#pragma once

#include "device/recompute/dtr/heuristic.h"

namespace l2l::device::recompute::dtr {

class EvictedClasses final : public Heuristic {
 public:
  explicit EvictedClasses(const State& state) : state_(state) {}
  double score(Index storage, double bound) override;
  void on_added(Index op) override;
  void on_evicted(Index storage) override;
  void on_returned(Index storage) override;

 private:
  struct Node {
    Index parent;           // itself: the root of its class
    Nanoseconds cost;       // of a root: of the class
    std::uint64_t counted;  // the turn in which it was last counted
  };

  Index root(Index node);
  template <typename Visit>
  void evicted_neighbours(Index storage, Visit visit) const;

  const State& state_;
  std::vector<Node> nodes_;
  std::vector<Index> node_of_;  // per storage, kNone where it is not evicted
  std::uint64_t turn_ = 0;
  // An alias that is declared while its storage is evicted adds to what the storage takes away when it returns, so that
  // a class may fall below zero. From then on a score is not at least that of the storage alone.
  bool negative_ = false;
};

}  // namespace l2l::device::recompute::dtr
