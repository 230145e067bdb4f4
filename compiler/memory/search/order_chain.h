// One chain of the local search: an order of blocks that is perturbed again and again, as in simulated annealing. An
// order stands for a plan that is built from the bottom up, or, with groups or pinned blocks, for the one of
// place_in_gaps() by first fit.
#pragma once

#include <functional>
#include <vector>

#include "compiler/memory/gaps.h"
#include "compiler/memory/search/random.h"

namespace l2l::compiler::memory {

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

}  // namespace l2l::compiler::memory
