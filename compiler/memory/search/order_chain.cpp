#include "compiler/memory/search/order_chain.h"

#include <algorithm>

namespace l2l::compiler::memory {
namespace {

constexpr double kTolerance = 0.01;  // of the gap to the bound; falls to 0 with the last change
constexpr std::size_t kMostMoves = 3;
constexpr std::size_t kStepsPerQuestion = 64;

struct Waiting {
  Bytes place;
  std::uint32_t rank;
  Index block;
};

bool later(const Waiting& a, const Waiting& b) { return a.place != b.place ? a.place > b.place : a.rank > b.rank; }

// Builds a plan from the bottom up: of the blocks whose lowest possible offset is the lowest of all, the first of
// `order` is placed there. Keeps for each unplaced block the lowest offset above its placed neighbours. Returns as
// place_in_gaps() does.
std::optional<Placement> level_fit(const Blocks& blocks, std::span<const Index> order, Bytes highest,
                                   const std::function<bool()>& stop) {
  Placement found{std::vector<Bytes>(blocks.count(), 0), 0};
  std::vector<char> placed(blocks.count(), 0);
  std::vector<Waiting> heap;
  heap.reserve(order.size());
  for (std::uint32_t rank = 0; rank < order.size(); ++rank) heap.push_back({0, rank, order[rank]});
  for (std::size_t step = 0; !heap.empty(); ++step) {
    std::pop_heap(heap.begin(), heap.end(), later);
    Waiting& next = heap.back();
    if (found.offsets[next.block] > next.place) {  // has risen since
      next.place = found.offsets[next.block];
      std::push_heap(heap.begin(), heap.end(), later);
      continue;
    }
    const Index block = next.block;
    heap.pop_back();
    placed[block] = 1;
    const Bytes end = found.offsets[block] + blocks.size(block);
    found.footprint = std::max(found.footprint, end);
    if (end > highest || (step % kStepsPerQuestion == 0 && stop())) return std::nullopt;
    for (const Index other : blocks.neighbours(block)) {
      if (!placed[other]) found.offsets[other] = std::max(found.offsets[other], end);
    }
  }
  return found;
}

}  // namespace

OrderChain::OrderChain(const Blocks& blocks, std::uint64_t seed) : blocks_(&blocks), random_(seed) {}

void OrderChain::begin(std::vector<Index> order, const std::function<bool()>& stop) {
  order_ = std::move(order);
  if (!accept(kNone, stop)) now_.footprint = kNone;
}

void OrderChain::change(std::size_t count, Bytes bound, const std::function<bool()>& stop) {
  if (now_.footprint == kNone) return;
  for (std::size_t step = 0; step < count && best_.footprint > bound && !stop(); ++step) {
    const double left = 1 - static_cast<double>(step) / static_cast<double>(count);
    const double gap = static_cast<double>(best_.footprint - bound);
    const auto tolerance = static_cast<Bytes>(kTolerance * left * left * gap);
    before_ = order_;
    for (std::size_t moves = 1 + random_.below(kMostMoves); moves > 0; --moves) move_one();
    if (!accept(std::max(now_.footprint, best_.footprint + tolerance), stop)) std::swap(order_, before_);
  }
}

bool OrderChain::accept(Bytes highest, const std::function<bool()>& stop) {
  std::optional<Placement> found = blocks_->unconstrained()
                                       ? level_fit(*blocks_, order_, highest, stop)
                                       : place_in_gaps(*blocks_, order_, Fit::first, highest, stop);
  if (!found) return false;
  now_ = std::move(*found);
  if (now_.footprint < best_.footprint) {
    best_ = now_;
    best_order_ = order_;
  }
  return true;
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
    if (now_.offsets[other] + blocks_->size(other) == now_.footprint && random_.below(++peaks) == 0) block = other;
  }
  for (std::size_t steps = random_.below(12); steps > 0 && now_.offsets[block] > 0; --steps) block = support_of(block);
  return block;
}

// A neighbour that ends where the block begins, at random; the block itself if there is none.
Index OrderChain::support_of(Index block) {
  Index below = block;
  std::size_t found = 0;
  for (const Index other : blocks_->neighbours(block)) {
    if (now_.offsets[other] + blocks_->size(other) == now_.offsets[block] && random_.below(++found) == 0) below = other;
  }
  return below;
}

}  // namespace l2l::compiler::memory
