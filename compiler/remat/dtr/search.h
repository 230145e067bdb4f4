// The storages that may be evicted, and which of them to evict next. Thread-bound.
#pragma once

#include <map>

#include "compiler/remat/dtr/heuristic.h"

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

  // Of a storage that becomes material or is unlocked, and of one that is locked or leaves memory.
  void add(Index storage);
  void remove(Index storage) { candidates_.erase(added_[storage]); }
  bool empty() const { return candidates_.empty(); }

  // Returns storages in order of eviction; valid until the next call. There must be candidates. Without shortcuts: the
  // storage of smallest score, the latest candidate among equals; the search ends early at a score of 0.
  const std::vector<Index>& choose(Bytes missing);

 private:
  struct Scored {
    double score;
    Index storage;
  };

  template <typename Visit>
  void each(bool small_too, Visit visit);
  std::size_t stride();
  bool small(Index storage);
  void take_smallest(bool small_too);
  void take_batch(bool small_too, Bytes missing);

  const State& state_;
  Heuristic& heuristic_;
  const Shortcuts shortcuts_;
  std::map<std::uint64_t, Index> candidates_;  // in the order in which they last became evictable
  std::vector<std::uint64_t> added_;           // per storage: its key there
  std::uint64_t next_ = 0;
  std::vector<Index> chosen_;
  std::vector<Scored> scored_;
  std::uint64_t draws_ = 0;
  std::size_t summed_ = 0;  // storages whose sizes are in bytes_
  double bytes_ = 0;
};

}  // namespace l2l::compiler::remat::dtr
