#include "compiler/memory/placed.h"

#include <algorithm>

namespace l2l::compiler::memory {

Placed::Placed(const Blocks& blocks) : blocks_(blocks), offsets_(blocks.count(), 0), placed_(blocks.count(), 0) {
  for (Index block = 0; block < blocks.count(); ++block) {
    if (blocks.pinned(block)) put(block, *blocks.pinned(block));
  }
}

void Placed::put(Index block, Bytes offset) {
  offsets_[block] = offset;
  placed_[block] = 1;
  footprint_ = std::max(footprint_, offset + blocks_.size(block));
}

std::span<const Placed::Extent> Placed::neighbours_of(Index block) {
  neighbours_.clear();
  for (const Index other : blocks_.neighbours(block)) {
    if (placed_[other]) neighbours_.push_back({offsets_[other], offsets_[other] + blocks_.size(other), other});
  }
  std::sort(neighbours_.begin(), neighbours_.end(),
            [](const Extent& a, const Extent& b) { return a.offset < b.offset; });
  return neighbours_;
}

}  // namespace l2l::compiler::memory
