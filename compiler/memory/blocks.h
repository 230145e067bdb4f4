// The problem as solvers see it: blocks to place, and which of them meet.
#pragma once

#include <span>
#include <vector>

#include "compiler/memory/problem.h"

namespace l2l::compiler::memory {

// One tensor, or a group: its tensors lie one after the other, each a part with its own lifetime.
struct Part {
  Index tensor = 0;
  Bytes offset = 0;  // from the begin of the block
  Bytes size = 0;
};

// Where block `other` must not begin relative to this one: for offsets x (this) and y (other), y - x is in none of the
// open ranges (low, high). Two single tensors that meet: one range (-size(other), size(this)).
struct Range {
  std::int64_t low = 0, high = 0;
};

// Immutable. Tensors without bytes or lifetime are in no block, but for those of a group that lives. Without groups
// blocks are numbered by the time of their begin. Takes four bytes for each meeting, and on several streams a clock
// test for each pair of tensors: count_meetings() (meetings.h) says beforehand how many there are.
class Blocks {
 public:
  // `problem` is one that check() accepts and must stay alive.
  explicit Blocks(const Problem& problem);

  std::size_t count() const { return blocks_.size(); }
  Bytes size(Index block) const { return blocks_[block].size; }  // aligned up
  Bytes alignment() const { return problem_.alignment; }
  std::span<const Part> parts(Index block) const {
    return std::span(parts_).subspan(blocks_[block].parts, blocks_[block].part_count);
  }
  std::optional<Bytes> pinned(Index block) const { return blocks_[block].pinned; }

  // Blocks alive at once with it, in ascending order.
  std::span<const Index> meetings(Index block) const {
    return std::span(meetings_).subspan(starts_[block], starts_[block + 1] - starts_[block]);
  }
  // Of the meeting at place `k` of that list: ascending, disjoint, multiples of the alignment.
  std::span<const Range> ranges(Index block, std::size_t k) const {
    const std::size_t at = starts_[block] + k;
    return std::span(ranges_).subspan(range_starts_[at], range_starts_[at + 1] - range_starts_[at]);
  }
  // Some block has several parts. Only then there are ranges(): otherwise it is (-size(other), size(this)) for all.
  bool grouped() const { return grouped_; }
  const Problem& problem() const { return problem_; }
  // Meetings of all blocks, and of groups their ranges: what placing every block once looks at.
  std::uint64_t steps() const { return meetings_.size() + ranges_.size(); }

  // Of offsets of blocks, those of tensors (0 for those in no block) and the footprint.
  Plan plan(std::span<const Bytes> offsets) const;

 private:
  struct Block {
    Bytes size = 0;
    std::size_t parts = 0, part_count = 0;
    std::optional<Bytes> pinned;
  };

  void add_block(std::span<const Index> tensors);
  void meet_by_parts();

  const Problem& problem_;
  std::vector<Block> blocks_;
  std::vector<Part> parts_;
  std::vector<std::size_t> starts_;
  std::vector<Index> meetings_;
  std::vector<std::size_t> range_starts_;
  std::vector<Range> ranges_;
  bool grouped_ = false;
};

}  // namespace l2l::compiler::memory
