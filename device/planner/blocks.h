// The problem as solvers see it: blocks to place, and which of them meet.
#pragma once

#include <span>
#include <vector>

#include "device/planner/problem.h"

namespace l2l::device::planner {

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
struct Meeting {
  Index other = 0;
  std::uint32_t ranges_begin = 0, ranges_end = 0;  // in Blocks::ranges(); ascending, disjoint
};

// Immutable. Tensors without bytes or lifetime are in no block.
class Blocks {
 public:
  explicit Blocks(const Problem& problem);

  std::size_t count() const;
  Bytes size(Index block) const;       // aligned up
  Bytes alignment() const;
  std::span<const Part> parts(Index block) const;
  std::optional<Bytes> pinned(Index block) const;
  std::span<const Meeting> meetings(Index block) const;  // blocks alive at once with it, in ascending order
  std::span<const Range> ranges() const;
  bool grouped() const;                // some block has several parts
  const Problem& problem() const;

  // Of offsets of blocks, those of tensors and the footprint.
  Plan plan(std::span<const Bytes> offsets) const;
};

}  // namespace l2l::device::planner
