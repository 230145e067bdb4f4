// Chooses an offset for a block among placed blocks that interfere with it. Shared by the greedy solvers.
#pragma once

#include <algorithm>
#include <vector>

#include "compiler/memory/greedy.h"
#include "compiler/memory/placed.h"

namespace l2l::compiler::memory {

// Thread-bound. Collects the open ranges in which a block must not begin, and finds a gap between them.
class Forbidden {
 public:
  static constexpr Bytes kNone = ~Bytes{0};
  static constexpr Bytes kAnywhere = Bytes{1} << 62;

  explicit Forbidden(const Blocks& blocks) : blocks_(blocks) {}

  // The offset in [bottom, top] that `fit` prefers for `block`, given its placed neighbours in ascending order. kNone
  // if there is none.
  Bytes choose(Index block, std::span<const Placed::Extent> others, Fit fit, Bytes bottom, Bytes top) {
    ranges_.clear();
    if (blocks_.grouped()) {
      collect_ranges(block, others);
    } else {
      const auto size = static_cast<std::int64_t>(blocks_.size(block));
      for (const Placed::Extent& other : others) {
        ranges_.push_back({static_cast<std::int64_t>(other.offset) - size, static_cast<std::int64_t>(other.end)});
      }
    }
    return static_cast<Bytes>(walk(fit, static_cast<std::int64_t>(bottom), static_cast<std::int64_t>(top)));
  }

 private:
  void collect_ranges(Index block, std::span<const Placed::Extent> others) {
    const std::span<const Index> neighbours = blocks_.neighbours(block);
    for (const Placed::Extent& other : others) {
      const auto at = std::lower_bound(neighbours.begin(), neighbours.end(), other.block);
      const auto offset = static_cast<std::int64_t>(other.offset);
      for (const Range& range : blocks_.ranges(block, static_cast<std::size_t>(at - neighbours.begin()))) {
        ranges_.push_back({offset - range.high, offset - range.low});
      }
    }
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
  }

  std::int64_t walk(Fit fit, std::int64_t bottom, std::int64_t top) const {
    std::int64_t best = -1, tightest = std::int64_t{1} << 62;
    for (const Range& range : ranges_) {
      if (bottom > top) return best;
      if (range.low >= bottom && range.low - bottom < tightest) {
        best = bottom;
        tightest = std::min(range.low, top) - bottom;
        if (fit == Fit::first) return best;
      }
      bottom = std::max(bottom, range.high);
    }
    return bottom <= top && (best < 0 || top - bottom < tightest) ? bottom : best;
  }

  const Blocks& blocks_;
  std::vector<Range> ranges_;
};

}  // namespace l2l::compiler::memory
