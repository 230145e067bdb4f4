// The blocks that a greedy solver has placed so far.
#pragma once

#include <span>
#include <vector>

#include "compiler/memory/blocks.h"

namespace l2l::compiler::memory {

// Thread-bound.
class Placed {
 public:
  struct Extent {
    Bytes offset, end;
    Index block;
  };

  // Places the pinned blocks. `blocks` must outlive it.
  explicit Placed(const Blocks& blocks);

  // Puts a block that is not placed yet at `offset`.
  void put(Index block, Bytes offset);
  // The placed blocks whose lifetimes overlap that of `block`, by ascending offset. Valid until the next call.
  std::span<const Extent> neighbours_of(Index block);

  Bytes footprint() const { return footprint_; }  // highest end
  std::vector<Bytes> take_offsets() { return std::move(offsets_); }

 private:
  const Blocks& blocks_;
  std::vector<Bytes> offsets_;
  std::vector<char> placed_;
  std::vector<Extent> neighbours_;
  Bytes footprint_ = 0;
};

}  // namespace l2l::compiler::memory
