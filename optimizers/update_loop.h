// The loop of every update kernel, over the Pack of an instruction set, the formats of the streams and the arithmetic
// of one row of sixteen elements. Each byte is read and written once.
#pragma once

#include <cstddef>

#include "optimizers/streams.h"
#include "optimizers/vector/prefetch.h"
#include "optimizers/vector/tail.h"

namespace l2l::optimizers {

inline constexpr std::size_t kLoopBlock = 512;  // kScaleBlock of optimizers/format.h

// Thread-bound; lives for one run.
template <class P, class Gradient, class Master, class First, class Second, class Arithmetic>
class UpdateLoop {
 public:
  struct Workspaces {
    typename First::Workspace first;
    typename Second::Workspace second;
  };
  __attribute__((always_inline)) UpdateLoop(const Streams& streams, Workspaces& workspaces, Arithmetic& arithmetic)
      : count_(streams.count),
        gradient_(streams),
        master_(streams),
        first_(streams.first, workspaces.first),
        second_(streams.second, workspaces.second),
        rounding_(streams),
        arithmetic_(arithmetic) {}

  __attribute__((always_inline)) void run() {
    for (std::size_t block = 0; block < count_; block += kLoopBlock) {
      const std::size_t end = count_ - block < kLoopBlock ? count_ : block + kLoopBlock;
      first_.open(block);
      second_.open(block);
      rows(block, end);
      if constexpr (kCodes) {
        if (block > 0) codes(block - kLoopBlock, (end - block) / kRows * kRows, kLoopBlock);
        if constexpr (First::kBlocks) first_.close(block);
        if constexpr (Second::kBlocks) second_.close(block);
      }
    }
    if constexpr (kCodes) {
      if (count_ > 0) codes((count_ - 1) / kLoopBlock * kLoopBlock, 0, (count_ - 1) % kLoopBlock + 1);
    }
    if constexpr (Arithmetic::kWritesMaster) master_.finish();
  }

 private:
  using Words = typename P::Words;
  using Rounding = typename Arithmetic::template Rounding<P>;
  // Formats whose codes depend on a whole block write those of a block's rows beside the rows of the next one: neither
  // waits for the other.
  static constexpr bool kCodes = Arithmetic::kWritesMoments && (First::kBlocks || Second::kBlocks);
  static_assert(!kCodes || First::kPairs);

  __attribute__((always_inline)) void rows(std::size_t begin, std::size_t end) {
    std::size_t i = begin;
    for (; i + kRows <= end; i += kRows) {
      gradient_.prefetch(i);
      master_.prefetch(i);
      first_.prefetch(i);
      second_.prefetch(i);
      if constexpr (First::kPairs) {
        for (std::size_t k = 0; k < kRows; k += 2 * kLanes) {
          pair(i + k);
          if constexpr (kCodes) {
            if (begin > 0) code_pair<false>(begin - kLoopBlock, i + k - begin, 2 * kLanes);
          }
        }
      } else {
        for (std::size_t k = 0; k < kRows; k += kLanes) row<false>(i + k, kLanes);
      }
    }
    for (; i + kLanes <= end; i += kLanes) row<false>(i, kLanes);
    if (i < end) row<true>(i, end - i);
  }

  template <bool kTail>
  __attribute__((always_inline)) void row(std::size_t i, std::size_t count) {
    const P g = gradient_.template load<kTail>(i, count);
    P w = master_.template load<kTail>(i, count);
    P m = first_.template load<kTail>(i, count), v = second_.template load<kTail>(i, count);
    arithmetic_.update(g, w, m, v);
    if constexpr (Arithmetic::kWritesMaster) master_.template store<kTail>(i, count, w);
    if constexpr (Arithmetic::kWritesMoments) {
      Words random = Words::all(0);
      if constexpr (First::kRounds || Second::kRounds) random = rounding_.of(i);
      first_.template store<kTail>(i, count, m, random & Words::all(0xffffu));
      second_.template store<kTail>(i, count, v, shift_right<16>(random));
    }
  }

  // Two rows at once: the elements at even and at odd positions.
  __attribute__((always_inline)) void pair(std::size_t i) {
    const Pair<P> g = gradient_.load_pair(i);
    Pair<P> w = master_.load_pair(i), m = first_.load_pair(i), v = second_.load_pair(i);
    arithmetic_.update(g.even, w.even, m.even, v.even);
    arithmetic_.update(g.odd, w.odd, m.odd, v.odd);
    if constexpr (Arithmetic::kWritesMaster) master_.store_pair(i, w);
    if constexpr (Arithmetic::kWritesMoments) {
      // Neighbours share their bits: the first moment of one takes those of the second moment of the other.
      const Words random = rounding_.of_every_second(i), low = random & Words::all(0xffffu);
      const Words high = shift_right<16>(random);
      first_.store_pair(i, m, low, high);
      second_.store_pair(i, v, high, low);
    }
  }

  // Codes of elements [begin, end) of the closed block.
  __attribute__((always_inline)) void codes(std::size_t block, std::size_t begin, std::size_t end) {
    constexpr std::size_t kPair = 2 * kLanes;
    std::size_t i = begin;
    for (; i + kPair <= end; i += kPair) code_pair<false>(block, i, kPair);
    if (i < end) code_pair<true>(block, i, end - i);
  }
  template <bool kTail>
  __attribute__((always_inline)) void code_pair(std::size_t block, std::size_t i, std::size_t count) {
    const Words random = rounding_.of_every_second(block + i), low = random & Words::all(0xffffu);
    const Words high = shift_right<16>(random);
    if constexpr (First::kBlocks) first_.template write_pair<kTail>(i, count, low, high);
    if constexpr (Second::kBlocks) second_.template write_pair<kTail>(i, count, high, low);
  }

  const std::size_t count_;
  const Gradient gradient_;
  const Master master_;
  First first_;
  Second second_;
  const Rounding rounding_;
  Arithmetic& arithmetic_;
};

}  // namespace l2l::optimizers
