// A moment in bf16, rounded stochastically: 2 bytes per parameter. The mean over the random bits is the value itself;
// the error of one rounding is below one unit in the last place, 2^-7 of the value. What is larger than every bf16
// (0.4% below the largest fp32) may become infinite, as it may in fp32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "optimizers/streams.h"
#include "optimizers/vector/prefetch.h"
#include "optimizers/vector/tail.h"

namespace l2l::optimizers {

template <class P>
class MomentBf16 {
 public:
  using Words = typename P::Words;
  static constexpr bool kRounds = true, kPairs = true, kBlocks = false;
  struct Workspace {};
  __attribute__((always_inline)) MomentBf16(const MomentStream& stream, Workspace&)
      : at_(static_cast<std::uint16_t*>(stream.codes)) {}

  __attribute__((always_inline)) void prefetch(std::size_t i) const { prefetch_rows(at_ + i); }
  __attribute__((always_inline)) void open(std::size_t) const {}
  template <bool kTail>
  __attribute__((always_inline)) P load(std::size_t i, std::size_t count) const {
    return from_bits(shift_left<16>(load_row<kTail>(
        at_ + i, count,
        [](const std::uint16_t* from) __attribute__((always_inline)) { return Words::load_u16(from); })));
  }
  // `random` is below 2^16.
  template <bool kTail>
  __attribute__((always_inline)) void store(std::size_t i, std::size_t count, P value, Words random) const {
    const Words code = shift_right<16>(rounded(value, random));
    store_row<kTail>(
        at_ + i, count, [&](std::uint16_t * to) __attribute__((always_inline)) { code.store_u16(to); });
  }
  __attribute__((always_inline)) Pair<P> load_pair(std::size_t i) const {
    const Words words = Words::load(at_ + i);
    return {from_bits(even_halves(words)), from_bits(odd_halves(words))};
  }
  __attribute__((always_inline)) void store_pair(std::size_t i, Pair<P> value, Words even, Words odd) const {
    join_halves(rounded(value.even, even), rounded(value.odd, odd)).store(at_ + i);
  }

 private:
  // The code is the upper half.
  static __attribute__((always_inline)) Words rounded(P value, Words random) { return bits(value) + random; }

  std::uint16_t* at_;
};

}  // namespace l2l::optimizers
