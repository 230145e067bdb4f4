#include <algorithm>

#include "compiler/memory/gaps.h"
#include "compiler/memory/search/search.h"
#include "compiler/memory/search/shared.h"

// Several chains perturb orders of the blocks and decode them. They start from the best of some sorted orders; after
// each round the worst chain continues from the best one.
namespace l2l::compiler::memory {
namespace {

constexpr std::size_t kChains = 4;
constexpr std::uint64_t kStepsPerRound = 40'000'000;  // per chain
constexpr std::uint64_t kStepsPerChange = 200, kStepsPerMove = 8;

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

// One chain: an order of blocks that is perturbed again and again, as in simulated annealing. An order stands for a
// plan that is built from the bottom up, or, with groups or pinned blocks, for the one of place_in_gaps() by first fit.
// Thread-bound, but may move from thread to thread.
class OrderChain {
 public:
  static constexpr Bytes kNone = ~Bytes{0};

  OrderChain(const Blocks& blocks, std::uint64_t seed);

  // Restarts from `order`.
  void begin(std::vector<Index> order, const std::function<bool()>& stop);
  // Perturbs the order `count` times and accepts what is not much worse than the best so far. Returns early when the
  // footprint reaches `bound`, or stop() is true.
  void change(std::size_t count, Bytes bound, const std::function<bool()>& stop);

  // The best so far. kNone before begin(), or when begin() was stopped.
  Bytes footprint() const { return best_.footprint; }
  const std::vector<Bytes>& offsets() const { return best_.offsets; }
  const std::vector<Index>& order() const { return best_order_; }

 private:
  // Whether the plan of the order is no higher than `highest`. Then it is kept, also as the best if it is that.
  bool accept(Bytes highest, const std::function<bool()>& stop);
  void move_one();
  Index block_under_peak();
  Index support_of(Index block);

  const Blocks* blocks_;
  SplitMix random_;
  std::vector<Index> order_, best_order_, before_;
  Placement now_{{}, kNone}, best_{{}, kNone};
};

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

class LocalSearch : public Search {
 public:
  LocalSearch(const Blocks& blocks, const SearchLimits& limits)
      : blocks_(blocks), limits_(limits), bound_(align_up(limits.bound, blocks.alignment())) {
    steps_per_change_ = kStepsPerChange + kStepsPerMove * blocks.count() + blocks.steps();
    for (std::size_t chain = 0; chain < kChains; ++chain) {
      chains_.emplace_back(blocks, limits.seed * kChains + chain);
    }
  }

  void run(SearchResult& best, std::uint64_t steps) override {
    steps_left_ = steps;
    best_ = std::move(best);
    if (best_.footprint > bound_ && !begun_) begin();
    while (best_.footprint > bound_ && !late() && steps_left_ >= kChains * steps_per_change_) {
      round();
      share();
    }
    best_.complete = best_.footprint <= bound_;
    best = std::move(best_);
  }

 private:
  bool late() const { return std::chrono::steady_clock::now() >= limits_.deadline; }

  void begin() {
    begun_ = true;
    const std::vector<std::vector<Index>> orders = sorted_orders(blocks_);
    std::vector<OrderChain> tries;
    for (std::size_t k = 0; k < orders.size(); ++k) tries.emplace_back(blocks_, 0);
    for (std::size_t first = 0; first < orders.size() && best_.footprint > bound_ && !late(); first += kChains) {
      const std::size_t count = std::min(kChains, orders.size() - first);
      race(count, limits_.threads, [&](std::size_t k, const std::function<bool()>& lost) {
        tries[first + k].begin(orders[first + k], [&] { return lost() || late(); });
        return tries[first + k].footprint() <= bound_;
      });
      for (std::size_t k = 0; k < count; ++k) take(tries[first + k]);
    }
    std::stable_sort(tries.begin(), tries.end(),
                     [](const OrderChain& a, const OrderChain& b) { return a.footprint() < b.footprint(); });
    for (std::size_t k = 0; k < kChains && best_.footprint > bound_ && !late(); ++k) {
      chains_[k].begin(tries[std::min(k / 2, tries.size() - 1)].order(), [&] { return late(); });
    }
    spend(orders.size() + kChains);
  }

  void spend(std::uint64_t changes) { steps_left_ -= std::min(steps_left_, changes * steps_per_change_); }

  void round() {
    const std::uint64_t most = std::min(kStepsPerRound, steps_left_ / kChains);
    const std::uint64_t changes = std::max<std::uint64_t>(1, most / steps_per_change_);
    spend(kChains * changes);
    race(kChains, limits_.threads, [&](std::size_t k, const std::function<bool()>& lost) {
      chains_[k].change(changes, bound_, [&] { return lost() || late(); });
      return chains_[k].footprint() <= bound_;
    });
    for (const OrderChain& chain : chains_) take(chain);
  }

  // Ties go to the first chain, so that one that was told to stop changes nothing.
  void take(const OrderChain& chain) {
    if (chain.footprint() >= best_.footprint) return;
    best_.footprint = chain.footprint();
    best_.offsets = chain.offsets();
    if (limits_.improved) limits_.improved(best_);
  }

  void share() {
    const auto less = [](const OrderChain& a, const OrderChain& b) { return a.footprint() < b.footprint(); };
    const auto [first, last] = std::minmax_element(chains_.begin(), chains_.end(), less);
    if (first->footprint() < last->footprint()) last->begin(first->order(), [&] { return late(); });
  }

  const Blocks& blocks_;
  const SearchLimits limits_;
  const Bytes bound_;
  SearchResult best_;
  bool begun_ = false;
  std::uint64_t steps_per_change_ = 0, steps_left_ = 0;
  std::vector<OrderChain> chains_;
};

}  // namespace

std::unique_ptr<Search> local_search(const Blocks& blocks, const SearchLimits& limits) {
  return std::make_unique<LocalSearch>(blocks, limits);
}

}  // namespace l2l::compiler::memory
