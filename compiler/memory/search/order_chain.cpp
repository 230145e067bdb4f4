#include "compiler/memory/search/order_chain.h"

#include <algorithm>

namespace l2l::compiler::memory {
namespace {

constexpr double kTolerance = 0.01;  // of the gap to the bound; falls to 0 with the last change
constexpr std::size_t kMostMoves = 3;

}  // namespace

OrderChain::OrderChain(const Blocks& blocks, std::unique_ptr<Decoder> decoder, std::uint64_t seed)
    : blocks_(&blocks), decoder_(std::move(decoder)), random_(seed) {}

void OrderChain::begin(std::vector<Index> order, const std::function<bool()>& stop) {
  order_ = std::move(order);
  const std::optional<Bytes> footprint = decoder_->decode(order_, kNone, stop, offsets_);
  footprint_ = footprint.value_or(kNone);
  keep_if_best();
}

void OrderChain::change(std::size_t count, Bytes bound, const std::function<bool()>& stop) {
  if (footprint_ == kNone) return;
  for (std::size_t step = 0; step < count && best_ > bound && !stop(); ++step) {
    const double left = 1 - static_cast<double>(step) / static_cast<double>(count);
    const auto tolerance = static_cast<Bytes>(kTolerance * left * left * static_cast<double>(best_ - bound));
    tried_ = order_;
    for (std::size_t moves = 1 + random_.below(kMostMoves); moves > 0; --moves) move_one();
    const std::optional<Bytes> footprint =
        decoder_->decode(order_, std::max(footprint_, best_ + tolerance), stop, tried_offsets_);
    if (!footprint) {
      std::swap(order_, tried_);
      continue;
    }
    footprint_ = *footprint;
    std::swap(offsets_, tried_offsets_);
    keep_if_best();
  }
}

void OrderChain::keep_if_best() {
  if (footprint_ >= best_) return;
  best_ = footprint_;
  best_order_ = order_;
  best_offsets_ = offsets_;
}

// Moves a block to another place in the order, mostly one of the stack under the peak, and mostly to an earlier place.
void OrderChain::move_one() {
  const Index block = random_.below(4) != 0 ? block_under_peak() : static_cast<Index>(random_.below(blocks_->count()));
  const auto from = static_cast<std::size_t>(std::find(order_.begin(), order_.end(), block) - order_.begin());
  std::size_t to = random_.below(order_.size());
  if (random_.below(4) != 0 && from > 0) to = random_.below(from);
  const auto at = [&](std::size_t place) { return order_.begin() + static_cast<std::ptrdiff_t>(place); };
  if (to < from) std::rotate(at(to), at(from), at(from + 1));
  if (to > from) std::rotate(at(from), at(from + 1), at(to + 1));
}

Index OrderChain::block_under_peak() {
  Index block = 0;
  std::size_t peaks = 0;
  for (Index other = 0; other < blocks_->count(); ++other) {
    if (offsets_[other] + blocks_->size(other) == footprint_ && random_.below(++peaks) == 0) block = other;
  }
  for (std::size_t steps = random_.below(12); steps > 0 && offsets_[block] > 0; --steps) block = support_of(block);
  return block;
}

// A neighbour that ends where the block begins, at random; the block itself if there is none.
Index OrderChain::support_of(Index block) {
  Index below = block;
  std::size_t found = 0;
  for (const Index other : blocks_->neighbours(block)) {
    if (offsets_[other] + blocks_->size(other) == offsets_[block] && random_.below(++found) == 0) below = other;
  }
  return below;
}

}  // namespace l2l::compiler::memory
