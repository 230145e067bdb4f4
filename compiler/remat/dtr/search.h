// Which storages are evicted next. Thread-bound.
#pragma once

#include "compiler/remat/dtr/heuristic.h"
#include "compiler/remat/dtr/pool.h"

namespace l2l::compiler::remat::dtr {

// What the authors' prototype does so that the search costs less. All change which storages are evicted; none is on by
// default.
struct Shortcuts {
  bool ignore_small = false;  // storages below 1% of the mean size are evicted only when there are no others
  // About 2 sqrt(n) of n candidates are looked at: strides drawn from 1 to sqrt(n).
  bool sample = false;
  // Storages in the order of one search's scores are evicted until this share of the missing bytes is free. 0: one
  // storage for each search.
  double batch = 0;
  std::uint64_t seed = 1;  // of the sample
};

class Search {
 public:
  Search(const State& state, Heuristic& heuristic, const Shortcuts& shortcuts)
      : state_(state), heuristic_(heuristic), shortcuts_(shortcuts) {}

  // In the order in which they are to be evicted; valid until the next call. `pool` is not empty. Without shortcuts:
  // the one of smallest score, of several the last in the pool; the search ends early at a score of 0.
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
  std::size_t summed_ = 0;  // storages whose sizes are in the sum
  double bytes_ = 0;
};

}  // namespace l2l::compiler::remat::dtr
