#include "compiler/memory/gaps.h"

#include <algorithm>

namespace l2l::compiler::memory {
namespace {

constexpr std::size_t kBlocksPerQuestion = 64;

std::int64_t signed_of(Bytes bytes) { return static_cast<std::int64_t>(bytes); }

}  // namespace

Gaps::Gaps(const Blocks& blocks)
    : blocks_(blocks), placement_{std::vector<Bytes>(blocks.count(), 0), 0}, placed_(blocks.count(), 0) {
  for (Index block = 0; block < blocks.count(); ++block) {
    if (blocks.pinned(block)) put(block, *blocks.pinned(block));
  }
}

void Gaps::look_at(Index block) {
  ranges_.clear();
  const std::span<const Index> neighbours = blocks_.neighbours(block);
  for (std::size_t k = 0; k < neighbours.size(); ++k) {
    if (!placed_[neighbours[k]]) continue;
    const std::int64_t offset = signed_of(placement_.offsets[neighbours[k]]);
    if (!blocks_.grouped()) {
      ranges_.push_back({offset - signed_of(blocks_.size(block)), offset + signed_of(blocks_.size(neighbours[k]))});
      continue;
    }
    for (const Range& range : blocks_.ranges(block, k)) ranges_.push_back({offset - range.high, offset - range.low});
  }
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
}

Bytes Gaps::choose(Fit fit, Bytes bottom, Bytes top) const {
  std::int64_t free = signed_of(bottom), best = -1, tightest = std::int64_t{1} << 62;
  const std::int64_t last = signed_of(top);
  for (const Range& range : ranges_) {
    if (free > last) return static_cast<Bytes>(best);
    if (range.low >= free && range.low - free < tightest) {
      best = free;
      tightest = std::min(range.low, last) - free;
      if (fit == Fit::first) return static_cast<Bytes>(best);
    }
    free = std::max(free, range.high);
  }
  return static_cast<Bytes>(free <= last && (best < 0 || last - free < tightest) ? free : best);
}

void Gaps::put(Index block, Bytes offset) {
  placement_.offsets[block] = offset;
  placement_.footprint = std::max(placement_.footprint, offset + blocks_.size(block));
  placed_[block] = 1;
}

std::optional<Placement> place_in_gaps(const Blocks& blocks, std::span<const Index> order, Fit fit, Bytes highest,
                                       const std::function<bool()>& stop) {
  Gaps gaps(blocks);
  for (std::size_t at = 0; at < order.size(); ++at) {
    if (blocks.pinned(order[at])) continue;
    gaps.look_at(order[at]);
    gaps.put(order[at], gaps.choose(fit));
    if (gaps.placement().footprint > highest || (stop && at % kBlocksPerQuestion == 0 && stop())) return std::nullopt;
  }
  return gaps.take();
}

}  // namespace l2l::compiler::memory
