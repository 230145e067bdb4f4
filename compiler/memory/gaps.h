// Places blocks one by one, each into a gap between its neighbours that are placed already.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "compiler/memory/blocks.h"

namespace l2l::compiler::memory {

// The gap that the block fills most tightly, of equals the lowest; or the lowest gap.
enum class Fit { best, first };

struct Placement {
  std::vector<Bytes> offsets = {};  // per block
  Bytes footprint = 0;              // highest end of a block; sizes are aligned up
};

// Thread-bound.
class Gaps {
 public:
  static constexpr Bytes kNone = ~Bytes{0};
  static constexpr Bytes kAnywhere = Bytes{1} << 62;

  // Places the pinned blocks. `blocks` must outlive it.
  explicit Gaps(const Blocks& blocks);

  // choose() asks about `block` from now on, among the neighbours that are placed now.
  void look_at(Index block);
  // The offset in [bottom, top] that `fit` prefers; kNone if none is free.
  Bytes choose(Fit fit, Bytes bottom = 0, Bytes top = kAnywhere) const;
  // Puts a block that is not placed yet at `offset`.
  void put(Index block, Bytes offset);

  bool placed(Index block) const { return placed_[block] != 0; }
  const Placement& placement() const { return placement_; }
  Placement take() { return std::move(placement_); }

 private:
  const Blocks& blocks_;
  Placement placement_;
  std::vector<char> placed_;
  std::vector<Range> ranges_;  // in which the block must not begin, open, ascending by begin
};

// Pinned blocks are placed first. `order` names every block once. Returns nothing when a block would end above
// `highest`, or when stop(), called now and then, is true.
std::optional<Placement> place_in_gaps(const Blocks& blocks, std::span<const Index> order, Fit fit,
                                       Bytes highest = Gaps::kNone, const std::function<bool()>& stop = {});

}  // namespace l2l::compiler::memory
