// The storages that may be evicted, in the order in which they last became so. Thread-bound.
#pragma once

#include <vector>

#include "compiler/remat/dtr/graph.h"

namespace l2l::compiler::remat::dtr {

class Pool {
 public:
  // `storage` is not in it. Amortized constant time, as remove().
  void append(Index storage);
  void remove(Index storage);  // which is in it

  bool empty() const { return count_ == 0; }
  std::size_t count() const { return count_; }
  // Places, in order: a storage, or kNone where one was removed. Valid until append().
  const std::vector<Index>& places() const { return places_; }
  // The storages alone, in order.
  void compact();

 private:
  std::vector<Index> places_;
  std::vector<std::size_t> place_of_;  // of the storages that are in it
  std::size_t count_ = 0;
};

}  // namespace l2l::compiler::remat::dtr
