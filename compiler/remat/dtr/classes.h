// dtr_eq: evicted storages that touch form classes with a running cost, in a union-find. A storage that returns takes
// its cost away and leaves, but does not split its class: what it joined stays joined (phantom links). Thread-bound.
#pragma once

#include "compiler/remat/dtr/heuristic.h"

namespace l2l::compiler::remat::dtr {

// Sums are kept until a class that they hold changes.
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
    Index version;          // of a root: grows when the cost changes and when it becomes a root no longer
    Nanoseconds cost;       // of a root: of the class
    std::uint64_t counted;  // the turn in which it was last counted
  };
  struct Seen {
    Index root, version;
  };
  struct Around {        // a storage
    Index node = kNone;  // where it is evicted
    bool known = false;  // `sum` is that of the classes of its evicted neighbours, if these are as they were seen
    Nanoseconds sum = 0;
    std::vector<Seen> classes;
  };

  Index root(Index node);
  bool is_known(const Around& around) const;
  Nanoseconds sum_around(Index storage);
  void forget_neighbours(Index storage);
  template <typename Visit>
  void neighbours(Index storage, Visit visit) const;

  const State& state_;
  std::vector<Node> nodes_;
  std::vector<Around> around_;
  std::uint64_t turn_ = 0;
  // An alias that is declared while its storage is evicted adds to what the storage takes away when it returns, so that
  // a class may fall below zero. From then on a score is not at least that of the storage alone.
  bool negative_ = false;
};

}  // namespace l2l::compiler::remat::dtr
