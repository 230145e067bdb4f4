#include "compiler/memory/search/chains.h"
#include "compiler/memory/search/decoder.h"
#include "compiler/memory/search/search.h"
#include "compiler/memory/search/shared.h"

// Several chains perturb orders of the blocks and decode them. They start from the best of some sorted orders; after
// each round the worst chain continues from the best one.
namespace l2l::compiler::memory {
namespace {

constexpr std::size_t kChains = 4;
constexpr std::uint64_t kStepsPerChange = 200, kStepsPerMove = 8;

constexpr double kTolerance = 0.01;  // of the gap to the bound; falls to 0 with the last change
constexpr std::size_t kMostMoves = 3;

// One chain: an order of blocks that is perturbed again and again, as in simulated annealing. Thread-bound, but may
// move from thread to thread.
class OrderChain {
 public:
  static constexpr Bytes kNone = ~Bytes{0};

  OrderChain(const Decoder& decoder, std::uint64_t seed);

  // Restarts from `order`.
  void begin(std::vector<Index> order, const std::function<bool()>& stop);
  void continue_from(const OrderChain& other, const std::function<bool()>& stop) { begin(other.best_order_, stop); }
  // Perturbs the order `count` times and accepts what is not much worse than the best so far. Returns early when the
  // footprint reaches `bound`, or stop() is true.
  void change(std::size_t count, Bytes bound, const std::function<bool()>& stop);

  // The best so far. kNone before begin(), or when begin() was stopped.
  Bytes footprint() const { return best_.footprint; }
  const std::vector<Bytes>& offsets() const { return best_.offsets; }

 private:
  // Whether the plan of the order is no higher than `highest`. Then it is kept, also as the best if it is that.
  bool accept(Bytes highest, const std::function<bool()>& stop);
  void move_one();
  Index block_under_peak();
  Index support_of(Index block);

  const Decoder* decoder_;
  const Blocks* blocks_;
  SplitMix random_;
  std::vector<Index> order_, best_order_, before_;
  Placement now_{{}, kNone}, best_{{}, kNone};
};

OrderChain::OrderChain(const Decoder& decoder, std::uint64_t seed)
    : decoder_(&decoder), blocks_(&decoder.blocks()), random_(seed) {}

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
  std::optional<Placement> found = decoder_->decode(order_, highest, stop);
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
  decoder_->each_neighbour(block, [&](Index other) {
    if (now_.offsets[other] + blocks_->size(other) == now_.offsets[block] && random_.below(++found) == 0) below = other;
  });
  return below;
}

class LocalSearch : public ChainSearch<OrderChain> {
 public:
  LocalSearch(const Blocks& blocks, const SearchLimits& limits) : ChainSearch(blocks, limits), decoder_(blocks) {
    steps_per_change_ = kStepsPerChange + kStepsPerMove * blocks.count() + decoder_.steps();
    for (std::size_t chain = 0; chain < kChains; ++chain) {
      chains_.emplace_back(decoder_, limits.seed * kChains + chain);
    }
  }

 private:
  void begin() override {
    const std::vector<std::vector<Index>> orders = sorted_orders(decoder_.blocks());
    std::vector<OrderChain> tries;
    for (std::size_t k = 0; k < orders.size(); ++k) tries.emplace_back(decoder_, 0);
    for (std::size_t first = 0; first < orders.size() && !done(); first += kChains) {
      const std::size_t count = std::min(kChains, orders.size() - first);
      race(count, limits_.threads, [&](std::size_t k, const std::function<bool()>& lost) {
        tries[first + k].begin(orders[first + k], [&] { return lost() || late(); });
        return tries[first + k].footprint() <= bound_;
      });
      for (std::size_t k = 0; k < count; ++k) take(tries[first + k]);
    }
    std::stable_sort(tries.begin(), tries.end(),
                     [](const OrderChain& a, const OrderChain& b) { return a.footprint() < b.footprint(); });
    for (std::size_t k = 0; k < kChains && !done(); ++k) {
      chains_[k].continue_from(tries[std::min(k / 2, tries.size() - 1)], [&] { return late(); });
    }
    spend(orders.size() + kChains);
  }

  const Decoder decoder_;
};

}  // namespace

std::unique_ptr<Search> local_search(const Blocks& blocks, const SearchLimits& limits) {
  return std::make_unique<LocalSearch>(blocks, limits);
}

}  // namespace l2l::compiler::memory
