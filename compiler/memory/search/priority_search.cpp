#include <cmath>
#include <numeric>

#include "compiler/memory/search/chains.h"
#include "compiler/memory/search/decoder.h"

// Squeaky wheel optimization (Joslin, Clements, JAIR 10, 1999): blocks are placed by descending priority, at first
// size times lifetime; those that end up high gain priority, and all are placed again. Each plan is built anew from
// all that was found wrong with those before, so it improves in few changes where there are many blocks.
namespace l2l::compiler::memory {
namespace {

constexpr std::uint64_t kStepsPerBlock = 16;  // beside the decoder's
constexpr std::size_t kPatience = 12;         // changes without a smaller plan before the best priorities return
constexpr int kMostExponent = 400;            // of a priority

// How a chain treats blocks that end above the bound plus `level` times what the plan is above it: each gains a factor
// of 2^0 to 2^(exponents - 1), at random.
struct Blame {
  double level;
  std::uint64_t exponents;
};
constexpr Blame kBlames[] = {{0, 7}, {0.1, 7}, {0, 4}, {0.1, 12}};
constexpr std::size_t kLarge = 50'000;  // blocks: chains make few changes, so there are only the first two

// Thread-bound, but may move from thread to thread.
class PriorityChain {
 public:
  PriorityChain(const Decoder& decoder, std::vector<double> priorities, const Blame& blame, std::uint64_t seed)
      : decoder_(&decoder), blame_(blame), random_(seed), now_(std::move(priorities)), best_(now_) {}

  void change(std::size_t count, Bytes bound, const std::function<bool()>& stop) {
    for (std::size_t step = 0; step < count && footprint_ > bound; ++step) {
      const std::optional<Placement> found = decoder_->decode(by_priority(), Gaps::kNone, stop);
      if (!found) return;
      if (found->footprint < footprint_) {
        footprint_ = found->footprint;
        offsets_ = found->offsets;
        best_ = now_;
        waited_ = 0;
      } else if (++waited_ > kPatience) {
        now_ = best_;
        waited_ = 0;
      }
      raise(*found, bound);
    }
  }

  Bytes footprint() const { return footprint_; }
  const std::vector<Bytes>& offsets() const { return offsets_; }

 private:
  std::vector<Index> by_priority() const {
    std::vector<Index> order(now_.size());
    std::iota(order.begin(), order.end(), Index{0});
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return now_[a] > now_[b]; });
    return order;
  }

  void raise(const Placement& found, Bytes bound) {
    const Blocks& blocks = decoder_->blocks();
    const auto above = static_cast<double>(found.footprint - bound);
    const Bytes level = bound + static_cast<Bytes>(blame_.level * above);
    double most = 1;
    for (Index block = 0; block < blocks.count(); ++block) {
      if (found.offsets[block] + blocks.size(block) <= level) continue;
      now_[block] = std::ldexp(now_[block], static_cast<int>(random_.below(blame_.exponents)));
      most = std::max(most, now_[block]);
    }
    if (most < std::ldexp(1, kMostExponent)) return;
    for (double& priority : now_) priority = std::ldexp(priority, -kMostExponent / 2);
  }

  const Decoder* decoder_;
  Blame blame_;
  SplitMix random_;
  std::vector<double> now_, best_;  // priorities, by block
  std::vector<Bytes> offsets_;
  Bytes footprint_ = Gaps::kNone;  // before the first change
  std::size_t waited_ = 0;
};

class PrioritySearch : public ChainSearch<PriorityChain> {
 public:
  PrioritySearch(const Blocks& blocks, const SearchLimits& limits)
      : ChainSearch(blocks, limits), decoder_(blocks), seed_(limits.seed) {
    steps_per_change_ = kStepsPerBlock * blocks.count() + decoder_.steps();
  }

 private:
  void begin() override {
    const std::vector<double> areas = areas_of(decoder_.blocks());
    const std::size_t chains = areas.size() > kLarge ? 2 : std::size(kBlames);
    for (std::size_t k = 0; k < chains; ++k)
      chains_.emplace_back(decoder_, areas, kBlames[k], seed_ * std::size(kBlames) + k);
  }

  const Decoder decoder_;
  const std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Search> priority_search(const Blocks& blocks, const SearchLimits& limits) {
  return std::make_unique<PrioritySearch>(blocks, limits);
}

}  // namespace l2l::compiler::memory
