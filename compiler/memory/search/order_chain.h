// One chain of the local search: an order that is changed a little again and again, and what is best of it.
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

  // Begins anew with `order`.
  void begin(std::vector<Index> order, const std::function<bool()>& stop);
  // Changes the order `count` times, and keeps what is not much worse than the best so far. Returns early at `bound`.
  void change(std::size_t count, Bytes bound, const std::function<bool()>& stop);

  Bytes footprint() const { return best_; }  // kNone before begin(), or when that was stopped
  const std::vector<Bytes>& offsets() const { return best_offsets_; }
  const std::vector<Index>& order() const { return best_order_; }

 private:
  void keep_if_best();
  void move_one();
  Index one_to_blame();
  Index one_below(Index block);

  const Blocks* blocks_;
  std::unique_ptr<Decoder> decoder_;
  SplitMix random_;
  std::vector<Index> order_, best_order_, tried_;
  std::vector<Bytes> offsets_, best_offsets_, tried_offsets_;
  Bytes footprint_ = kNone, best_ = kNone;
};

}  // namespace l2l::compiler::memory
