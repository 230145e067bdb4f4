#include <algorithm>

#include "compiler/memory/search/decoder.h"

namespace l2l::compiler::memory {
namespace {

constexpr std::size_t kStepsPerQuestion = 64;

// Keeps for each unplaced block the lowest offset above its placed neighbours.
class LevelFit : public Decoder {
 public:
  explicit LevelFit(const Blocks& blocks) : blocks_(blocks) {
    for (Index block = 0; block < blocks.count(); ++block) sizes_.push_back(blocks.size(block));
  }

  std::optional<Bytes> decode(std::span<const Index> order, Bytes highest, const std::function<bool()>& stop,
                              std::vector<Bytes>& offsets) override {
    offsets.assign(blocks_.count(), 0);
    placed_.assign(blocks_.count(), 0);
    heap_.clear();
    for (std::uint32_t rank = 0; rank < order.size(); ++rank) heap_.push_back({0, rank, order[rank]});
    Bytes footprint = 0;
    for (std::size_t step = 0; !heap_.empty(); ++step) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      Waiting& next = heap_.back();
      if (offsets[next.block] > next.place) {  // has risen since
        next.place = offsets[next.block];
        std::push_heap(heap_.begin(), heap_.end(), later);
        continue;
      }
      const Index block = next.block;
      heap_.pop_back();
      placed_[block] = 1;
      const Bytes end = offsets[block] + sizes_[block];
      footprint = std::max(footprint, end);
      if (end > highest || (step % kStepsPerQuestion == 0 && stop())) return std::nullopt;
      for (const Index other : blocks_.neighbours(block)) {
        if (!placed_[other]) offsets[other] = std::max(offsets[other], end);
      }
    }
    return footprint;
  }

 private:
  struct Waiting {
    Bytes place;
    std::uint32_t rank;
    Index block;
  };
  static bool later(const Waiting& a, const Waiting& b) {
    return a.place != b.place ? a.place > b.place : a.rank > b.rank;
  }

  const Blocks& blocks_;
  std::vector<Bytes> sizes_;
  std::vector<char> placed_;
  std::vector<Waiting> heap_;
};

}  // namespace

std::unique_ptr<Decoder> level_decoder(const Blocks& blocks) { return std::make_unique<LevelFit>(blocks); }

}  // namespace l2l::compiler::memory
