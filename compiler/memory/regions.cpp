#include <algorithm>

#include "compiler/memory/greedy.h"

namespace l2l::compiler::memory {

// Regions lie one above the other; each is as large as the block that opened it.
Placement place_in_regions(const Blocks& blocks, std::span<const Index> order, Method method, Fit fit) {
  struct Region {
    Bytes begin, end;
  };
  Gaps gaps(blocks);
  Bytes top = gaps.placement().footprint;  // regions lie above all pinned blocks
  std::vector<Region> regions;
  const auto inside = [&](Index block, const Region& region) {
    const Bytes offset = gaps.placement().offsets[block];
    return gaps.placed(block) && region.begin <= offset && offset < region.end;
  };
  const auto choose = [&](Index block) {
    const Bytes size = blocks.size(block);
    const std::span<const Index> met = blocks.neighbours(block);
    gaps.look_at(block);
    for (const Region& region : regions) {
      if (region.end - region.begin < size) continue;
      if (method == Method::many_objects) {
        const Bytes offset = gaps.choose(fit, region.begin, region.end - size);
        if (offset != Gaps::kNone) return offset;
      } else if (std::none_of(met.begin(), met.end(), [&](Index other) { return inside(other, region); })) {
        return region.begin;
      }
    }
    regions.push_back({top, top + size});
    top += size;
    return regions.back().begin;
  };
  for (const Index block : order) {
    if (!blocks.pinned(block)) gaps.put(block, choose(block));
  }
  return gaps.take();
}

}  // namespace l2l::compiler::memory
