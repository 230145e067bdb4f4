// Blocks placed so far, and those of them that a block meets in the order of their addresses.
#pragma once

#include <span>
#include <vector>

#include "compiler/memory/blocks.h"

namespace l2l::compiler::memory {

// Thread-bound. Ranks by address stand in a bit row of those that a block meets, so that nothing is sorted for each
// block; what was placed since ranks were last given is kept apart and is little.
class Placed {
 public:
  struct Extent {
    Bytes offset, end;
    Index block;
  };

  explicit Placed(const Blocks& blocks);

  // Each block once.
  void put(Index block, Bytes offset);
  // In ascending order of offset; valid until the next call.
  std::span<const Extent> met_by(Index block);

  bool has(Index block) const { return rank_[block] != kNowhere; }
  Bytes offset(Index block) const { return offsets_[block]; }
  Bytes footprint() const { return footprint_; }
  std::vector<Bytes> take_offsets() { return std::move(offsets_); }

 private:
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0}, kRecent = kNowhere - 1;
  static constexpr std::size_t kMostRecent = 128;
  static constexpr std::size_t kFewMeetings = 32;  // of each block: sorting them is faster than ranking all

  void rank_recent();
  void sort_ranks();

  const Blocks& blocks_;
  std::vector<Bytes> offsets_;
  Bytes footprint_ = 0;
  bool ranks_pay_ = false;
  std::vector<std::uint32_t> rank_;  // per block: in ranked_
  std::vector<Extent> ranked_, recent_;
  std::vector<std::uint64_t> row_;  // a bit per rank; all zero between calls
  std::vector<std::uint32_t> met_ranks_;
  std::vector<Extent> met_, met_recent_;
};

}  // namespace l2l::compiler::memory
