#include "compiler/memory/forbidden.h"
#include "compiler/memory/greedy.h"

namespace l2l::compiler::memory {
namespace {

// Thread-bound. Regions lie one above the other; each is as large as the block that opened it.
class Regions {
 public:
  Regions(const Blocks& blocks, Method method, Fit fit)
      : blocks_(blocks), method_(method), fit_(fit), forbidden_(blocks), placed_(blocks), top_(placed_.footprint()) {}

  void place(Index block) {
    const std::span<const Placed::Extent> met = placed_.neighbours_of(block);
    std::size_t at = 0;
    for (const Region& region : regions_) {
      while (at < met.size() && met[at].offset < region.offset) ++at;
      const std::size_t first = at;
      while (at < met.size() && met[at].offset < region.offset + region.length) ++at;
      const Bytes offset = enter(block, region, met.subspan(first, at - first));
      if (offset != Forbidden::kNone) return placed_.put(block, offset);
    }
    placed_.put(block, top_);
    regions_.push_back({top_, blocks_.size(block)});
    top_ += blocks_.size(block);
  }

  Placement take() {
    const Bytes footprint = placed_.footprint();
    return {placed_.take_offsets(), footprint};
  }

 private:
  struct Region {
    Bytes offset, length;
  };

  // The block's offset in the region, given its neighbours there; kNone if it does not fit.
  Bytes enter(Index block, const Region& region, std::span<const Placed::Extent> inside) {
    if (region.length < blocks_.size(block)) return Forbidden::kNone;
    if (inside.empty()) return region.offset;
    if (method_ == Method::single_object) return Forbidden::kNone;
    const Bytes last = region.offset + region.length - blocks_.size(block);
    return forbidden_.choose(block, inside, fit_, region.offset, last);
  }

  const Blocks& blocks_;
  const Method method_;
  const Fit fit_;
  Forbidden forbidden_;
  Placed placed_;
  Bytes top_;  // regions lie above all pinned blocks
  std::vector<Region> regions_;
};

}  // namespace

Placement place_in_regions(const Blocks& blocks, std::span<const Index> order, Method method, Fit fit) {
  Regions regions(blocks, method, fit);
  for (const Index b : order) {
    if (!blocks.pinned(b)) regions.place(b);
  }
  return regions.take();
}

}  // namespace l2l::compiler::memory
