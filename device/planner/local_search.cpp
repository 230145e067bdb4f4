#include <algorithm>

#include "device/planner/local_orders.h"
#include "device/planner/order_chain.h"
#include "device/planner/race.h"
#include "device/planner/search.h"

// Chains that each change an order of the blocks and decode it. All begin with the best of some sorted orders; after
// each round the worst goes on from where the best is.
namespace l2l::device::planner {
namespace {

constexpr std::size_t kChains = 4;
constexpr std::uint64_t kStepsPerRound = 40'000'000;  // meetings looked at per chain

class LocalSearch {
 public:
  LocalSearch(const Blocks& blocks, SearchResult best, const SearchLimits& limits)
      : blocks_(blocks), limits_(limits), bound_(align_up(limits.bound, blocks.alignment())), best_(std::move(best)) {
    std::uint64_t meetings = blocks.count();
    for (Index block = 0; block < blocks.count(); ++block) {
      meetings += blocks.meetings(block).size();
      levels_ = levels_ && !blocks.pinned(block);
    }
    levels_ = levels_ && !blocks.grouped();
    changes_ = std::max<std::uint64_t>(1, kStepsPerRound / meetings);
    for (std::size_t chain = 0; chain < kChains; ++chain) {
      chains_.emplace_back(blocks, decoder(chain), limits.seed * kChains + chain);
    }
  }

  SearchResult run() {
    begin();
    changes_ = std::min(changes_, std::max<std::uint64_t>(1, limits_.nodes / kChains));
    for (std::uint64_t steps = 0; best_.footprint > bound_ && !late() && steps < limits_.nodes;
         steps += kChains * changes_) {
      round();
      share();
    }
    best_.complete = best_.footprint <= bound_;
    return std::move(best_);
  }

 private:
  bool late() const { return std::chrono::steady_clock::now() >= limits_.deadline; }

  std::unique_ptr<Decoder> decoder(std::size_t) const {
    return levels_ ? level_decoder(blocks_) : first_fit_decoder(blocks_);
  }

  void begin() {
    const std::vector<std::vector<Index>> orders = local_orders(blocks_);
    std::vector<OrderChain> tries;
    for (std::size_t k = 0; k < orders.size(); ++k) tries.emplace_back(blocks_, decoder(k), 0);
    race(orders.size(), limits_.threads, [&](std::size_t k, const std::function<bool()>& lost) {
      tries[k].begin(orders[k], [&] { return lost() || late(); });
      return tries[k].footprint() <= bound_;
    });
    for (const OrderChain& its : tries) take(its);
    std::stable_sort(tries.begin(), tries.end(),
                     [](const OrderChain& a, const OrderChain& b) { return a.footprint() < b.footprint(); });
    for (std::size_t k = 0; k < kChains && best_.footprint > bound_ && !late(); ++k) {
      chains_[k].begin(tries[std::min(k / 2, tries.size() - 1)].order(), [&] { return late(); });
    }
  }

  void round() {
    race(kChains, limits_.threads, [&](std::size_t k, const std::function<bool()>& lost) {
      chains_[k].change(changes_, bound_, [&] { return lost() || late(); });
      return chains_[k].footprint() <= bound_;
    });
    for (const OrderChain& chain : chains_) take(chain);
  }

  // The first of equals, so that a chain that was told to stop changes nothing.
  void take(const OrderChain& chain) {
    if (chain.footprint() >= best_.footprint) return;
    best_.footprint = chain.footprint();
    best_.offsets = chain.offsets();
  }

  void share() {
    const auto less = [](const OrderChain& a, const OrderChain& b) { return a.footprint() < b.footprint(); };
    const auto [first, last] = std::minmax_element(chains_.begin(), chains_.end(), less);
    if (first->footprint() < last->footprint()) last->begin(first->order(), [&] { return late(); });
  }

  const Blocks& blocks_;
  const SearchLimits& limits_;
  const Bytes bound_;
  SearchResult best_;
  bool levels_ = true;
  std::uint64_t changes_ = 1;
  std::vector<OrderChain> chains_;
};

}  // namespace

SearchResult local_search(const Blocks& blocks, SearchResult best, const SearchLimits& limits) {
  best.complete = best.footprint <= align_up(limits.bound, blocks.alignment());
  if (best.complete || blocks.count() == 0) return best;
  return LocalSearch(blocks, std::move(best), limits).run();
}

}  // namespace l2l::device::planner
