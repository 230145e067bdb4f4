// Searches whose plans are improved by several chains side by side.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "compiler/memory/search/search.h"
#include "compiler/memory/search/shared.h"

namespace l2l::compiler::memory {

// Chains make a number of changes each, round by round, on as many threads as there are. A chain has footprint() and
// offsets() of its best plan, and change(count, bound, stop), which may end early at the bound or when stop() is true.
// Where it has continue_from(other, stop), the worst continues from the best after each round.
template <class Chain>
class ChainSearch : public Search {
 public:
  void run(SearchResult& best, std::uint64_t steps) override {
    steps_left_ = steps;
    best_ = std::move(best);
    if (!done() && !begun_) {
      begun_ = true;
      begin();
    }
    while (!done() && steps_left_ >= chains_.size() * steps_per_change_) {
      round();
      if constexpr (requires(Chain & chain) { chain.continue_from(chain, std::function<bool()>()); }) share();
    }
    best_.complete = best_.footprint <= bound_;
    best = std::move(best_);
  }

 protected:
  ChainSearch(const Blocks& blocks, const SearchLimits& limits)
      : limits_(limits), bound_(align_up(limits.bound, blocks.alignment())) {}

  // Called once, before the first round; makes the chains, unless they are there.
  virtual void begin() = 0;

  bool late() const { return std::chrono::steady_clock::now() >= limits_.deadline; }
  bool done() const { return best_.footprint <= bound_ || late(); }
  void spend(std::uint64_t changes) { steps_left_ -= std::min(steps_left_, changes * steps_per_change_); }

  // Ties go to the first chain, so that one that was told to stop changes nothing.
  void take(const Chain& chain) {
    if (chain.footprint() >= best_.footprint) return;
    best_.footprint = chain.footprint();
    best_.offsets = chain.offsets();
    if (limits_.improved) limits_.improved(best_);
  }

  const SearchLimits limits_;
  const Bytes bound_;
  std::vector<Chain> chains_;  // at least one
  std::uint64_t steps_per_change_ = 1;

 private:
  static constexpr std::uint64_t kStepsPerRound = 40'000'000;  // per chain

  void round() {
    const std::uint64_t most = std::min(kStepsPerRound, steps_left_ / chains_.size());
    const std::uint64_t changes = std::max<std::uint64_t>(1, most / steps_per_change_);
    spend(chains_.size() * changes);
    race(chains_.size(), limits_.threads, [&](std::size_t k, const std::function<bool()>& lost) {
      chains_[k].change(changes, bound_, [&] { return lost() || late(); });
      return chains_[k].footprint() <= bound_;
    });
    for (const Chain& chain : chains_) take(chain);
  }

  void share() {
    const auto less = [](const Chain& a, const Chain& b) { return a.footprint() < b.footprint(); };
    const auto [first, last] = std::minmax_element(chains_.begin(), chains_.end(), less);
    if (first->footprint() < last->footprint()) last->continue_from(*first, [&] { return late(); });
  }

  SearchResult best_;
  bool begun_ = false;
  std::uint64_t steps_left_ = 0;
};

}  // namespace l2l::compiler::memory
