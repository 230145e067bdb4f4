#include <algorithm>

#include "compiler/memory/search/order_chain.h"
#include "compiler/memory/search/orders.h"
#include "compiler/memory/search/race.h"
#include "compiler/memory/search/search.h"

// Several chains perturb orders of the blocks and decode them. They start from the best of some sorted orders; after
// each round the worst chain continues from the best one.
namespace l2l::compiler::memory {
namespace {

constexpr std::size_t kChains = 4;
constexpr std::uint64_t kStepsPerRound = 40'000'000;  // per chain
constexpr std::uint64_t kStepsPerChange = 200, kStepsPerMove = 8;

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
