// One chain of the local search: an order of blocks that is perturbed again and again, as in simulated annealing.
#pragma once

#include <memory>
#include <vector>

#include "compiler/memory/search/decoder.h"
#include "compiler/memory/search/random.h"

namespace l2l::compiler::memory {

// Thread-bound, but may move from thread to thread.
class OrderChain {
 public:
  static constexpr Bytes kNone = ~Bytes{0};

  OrderChain(const Blocks& blocks, std::unique_ptr<Decoder> decoder, std::uint64_t seed);

  // Restarts from `order`.
  void begin(std::vector<Index> order, const std::function<bool()>& stop);
  // Perturbs the order `count` times and accepts what is not much worse than the best so far. Returns early when the
  // footprint reaches `bound`, or stop() is true.
  void change(std::size_t count, Bytes bound, const std::function<bool()>& stop);

  // The best so far. kNone before begin(), or when begin() was stopped.
  Bytes footprint() const { return best_; }
  const std::vector<Bytes>& offsets() const { return best_offsets_; }
  const std::vector<Index>& order() const { return best_order_; }

 private:
  void keep_if_best();
  void move_one();
  Index block_under_peak();
  Index support_of(Index block);

  const Blocks* blocks_;
  std::unique_ptr<Decoder> decoder_;
  SplitMix random_;
  std::vector<Index> order_, best_order_, tried_;
  std::vector<Bytes> offsets_, best_offsets_, tried_offsets_;
  Bytes footprint_ = kNone, best_ = kNone;
};

}  // namespace l2l::compiler::memory
