// The storages that may be evicted, in the order in which they last became evictable. Thread-bound.
#pragma once

#include <vector>

#include "compiler/remat/dtr/graph.h"

namespace l2l::compiler::remat::dtr {

class Pool {
 public:
  // Both take amortized constant time. append(): `storage` must not be in the pool; remove(): it must be.
  void append(Index storage);
  void remove(Index storage);

  bool empty() const { return count_ == 0; }
  std::size_t count() const { return count_; }
  // In order; kNone where a storage was removed. Valid until append().
  const std::vector<Index>& places() const { return places_; }
  // Removes the kNone entries.
  void compact();

 private:
  std::vector<Index> places_;
  std::vector<std::size_t> place_of_;  // per storage in the pool
  std::size_t count_ = 0;
};

}  // namespace l2l::compiler::remat::dtr
