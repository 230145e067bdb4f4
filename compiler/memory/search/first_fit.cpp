#include <algorithm>

#include "compiler/memory/search/decoder.h"

namespace l2l::compiler::memory {
namespace {

constexpr std::size_t kBlocksPerQuestion = 64;

struct Taken {
  std::int64_t low, high;  // the block cannot begin in the open range
};

class FirstFit : public Decoder {
 public:
  explicit FirstFit(const Blocks& blocks) : blocks_(blocks), placed_(blocks.count(), 0) {}

  std::optional<Bytes> decode(std::span<const Index> order, Bytes highest, const std::function<bool()>& stop,
                              std::vector<Bytes>& offsets) override {
    std::fill(placed_.begin(), placed_.end(), 0);
    offsets.assign(blocks_.count(), 0);
    Bytes footprint = place_pinned(offsets);
    for (std::size_t at = 0; at < order.size(); ++at) {
      const Index block = order[at];
      if (placed_[block]) continue;
      offsets[block] = lowest_place(block, offsets);
      placed_[block] = 1;
      footprint = std::max(footprint, offsets[block] + blocks_.size(block));
      if (footprint > highest || (at % kBlocksPerQuestion == 0 && stop())) return std::nullopt;
    }
    return footprint;
  }

 private:
  Bytes place_pinned(std::vector<Bytes>& offsets) {
    Bytes footprint = 0;
    for (Index block = 0; block < blocks_.count(); ++block) {
      if (!blocks_.pinned(block)) continue;
      offsets[block] = *blocks_.pinned(block);
      placed_[block] = 1;
      footprint = std::max(footprint, offsets[block] + blocks_.size(block));
    }
    return footprint;
  }

  Bytes lowest_place(Index block, const std::vector<Bytes>& offsets) {
    taken_.clear();
    const std::span<const Index> others = blocks_.neighbours(block);
    for (std::size_t k = 0; k < others.size(); ++k) {
      if (placed_[others[k]]) take(block, k, others[k], static_cast<std::int64_t>(offsets[others[k]]));
    }
    std::sort(taken_.begin(), taken_.end(), [](const Taken& a, const Taken& b) { return a.low < b.low; });
    std::int64_t place = 0;
    for (const Taken& range : taken_) {
      if (range.low >= place) break;
      place = std::max(place, range.high);
    }
    return static_cast<Bytes>(place);
  }

  // y - x in (low, high) is forbidden, x the block and y the other: x in (y - high, y - low) is.
  void take(Index block, std::size_t k, Index other, std::int64_t y) {
    if (!blocks_.grouped()) {
      const auto size = static_cast<std::int64_t>(blocks_.size(block));
      taken_.push_back({y - size, y + static_cast<std::int64_t>(blocks_.size(other))});
      return;
    }
    for (const Range& range : blocks_.ranges(block, k)) taken_.push_back({y - range.high, y - range.low});
  }

  const Blocks& blocks_;
  std::vector<char> placed_;
  std::vector<Taken> taken_;
};

}  // namespace

std::unique_ptr<Decoder> first_fit_decoder(const Blocks& blocks) { return std::make_unique<FirstFit>(blocks); }

}  // namespace l2l::compiler::memory
