// Selects the storages to evict next. Thread-bound.
#pragma once

#include "compiler/remat/dtr/heuristic.h"
#include "compiler/remat/dtr/pool.h"

namespace l2l::compiler::remat::dtr {

// Approximations of the authors' prototype that make the search cheaper. All change which storages are evicted; all are
// off by default.
struct Shortcuts {
  bool ignore_small = false;  // evict storages below 1% of the mean size only when there are no others
  // Look at about 2 sqrt(n) of n candidates, in random strides from 1 to sqrt(n).
  bool sample = false;
  // Evict in the order of one search's scores until this share of the missing bytes is free. 0: one storage per search.
  double batch = 0;
  std::uint64_t seed = 1;  // of `sample`
};

class Search {
 public:
  Search(const State& state, Heuristic& heuristic, const Shortcuts& shortcuts)
      : state_(state), heuristic_(heuristic), shortcuts_(shortcuts) {}

  // Returns storages in order of eviction; valid until the next call. `pool` must not be empty. Without shortcuts: the
  // storage of smallest score, the last in the pool among equals; the search ends early at a score of 0.
  const std::vector<Index>& choose(Pool& pool, Bytes missing);

 private:
  struct Candidate {
    double score;
    Index storage;
  };

  template <typename Visit>
  void each(Pool& pool, bool small_too, Visit visit);
  std::size_t stride(std::size_t candidates);
  bool small(Index storage);
  void take_smallest(Pool& pool, bool small_too);
  void take_batch(Pool& pool, bool small_too, Bytes missing);

  const State& state_;
  Heuristic& heuristic_;
  const Shortcuts shortcuts_;
  std::vector<Index> chosen_;
  std::vector<Candidate> candidates_;
  std::uint64_t draws_ = 0;
  std::size_t summed_ = 0;  // storages whose sizes are in bytes_
  double bytes_ = 0;
};

}  // namespace l2l::compiler::remat::dtr
