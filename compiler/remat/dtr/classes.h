// The heuristic dtr_eq (heuristic.h): adjacent evicted storages form classes with a running cost, in a union-find. A
// storage that returns subtracts its cost from its class, but the class is not split.
#pragma once

#include "compiler/remat/dtr/heuristic.h"

namespace l2l::compiler::remat::dtr {

// Thread-bound. Sums are cached until one of their classes changes.
class EvictedClasses final : public Heuristic {
 public:
  explicit EvictedClasses(const State& state) : state_(state) {}
  double score(Index storage, double bound) override;
  void on_added(Index op) override;
  void on_evicted(Index storage) override;
  void on_returned(Index storage) override;

 private:
  struct Node {
    Index parent;           // itself, if it is the root of its class
    Index version;          // of a root: grows when the cost changes, and when it ceases to be a root
    Time cost;              // of a root: of the class
    std::uint64_t counted;  // the epoch in which it was last counted
  };
  struct Seen {
    Index root, version;
  };
  struct Neighbourhood {  // per storage
    Index node = kNone;   // its node, if it is evicted
    bool known = false;   // `sum` is the cost of `classes`, those of its evicted neighbours, if versions are unchanged
    Time sum = 0;
    std::vector<Seen> classes;
  };

  Index root(Index node);
  bool is_known(const Neighbourhood& neighbourhood) const;
  Time class_costs(Index storage);
  void forget_neighbours(Index storage);
  template <typename Visit>
  void neighbours(Index storage, Visit visit) const;

  const State& state_;
  std::vector<Node> nodes_;
  std::vector<Neighbourhood> neighbourhoods_;
  std::uint64_t epoch_ = 0;
  // An alias declared while its storage is evicted adds to the cost that the storage subtracts when it returns, so that
  // a class can fall below zero. Then a score may be less than that of the storage alone.
  bool negative_ = false;
};

}  // namespace l2l::compiler::remat::dtr
