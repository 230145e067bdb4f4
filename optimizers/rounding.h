// The random bits of stochastic rounding: a pure function of seed, group, update and element. Independent of threads,
// instruction set and the cut into runs.
#pragma once

#include <cstdint>

#include "core/philox.h"
#include "optimizers/streams.h"

namespace l2l::optimizers {

// Of elements [block * 2^32, (block + 1) * 2^32) of group `group` in its update number `count`.
constexpr __attribute__((always_inline)) std::uint32_t rounding_key(std::uint64_t seed, std::uint32_t group,
                                                                    std::uint64_t count, std::uint32_t block) {
  // No microbatch and op of a layer are these.
  const RngKey key{
      .seed = seed, .step = static_cast<std::uint32_t>(count), .layer = group, .microbatch = (1u << 24) - 1, .op = 255};
  return philox(key, block)[0];
}

// Thirty-two bits per element: the low half for the first moment, the high half for the second; two neighbours share
// them, halves exchanged. An additive recurrence (Weyl, 1916): pair n has key + n * kSlope modulo 2^32. Over the
// updates, whose keys are independent, each value is uniform; within one the values of any stretch of elements are
// spread evenly in both halves, with the two-dimensional slopes of M. Roberts (1 / p and 1 / p^2 with p^3 = p + 1), so
// that the rounding errors of a tensor cancel better than independent ones.
template <class P>
class StochasticRounding {
 public:
  using Words = typename P::Words;
  explicit __attribute__((always_inline)) StochasticRounding(const Streams& streams)
      : first_(streams.index), key_(streams.key), slope_(Words::ramp() * Words::all(kSlope)) {}

  // Of elements [i, i + 16) of the run; i is even. Two neighbours share a word: the second has its halves exchanged.
  __attribute__((always_inline)) Words of(std::size_t i) const {
    const Words lane = Words::ramp(), odd = Words::all(0) - (lane & Words::all(1));
    const Words x = Words::all(at(i)) + shift_right<1>(lane) * Words::all(kSlope);
    return x ^ ((x ^ exchanged(x)) & odd);
  }
  // Of elements i, i + 2, ... i + 30; of those that follow them, exchanged().
  __attribute__((always_inline)) Words of_every_second(std::size_t i) const { return Words::all(at(i)) + slope_; }
  static __attribute__((always_inline)) Words exchanged(Words x) { return shift_left<16>(x) | shift_right<16>(x); }

 private:
  static constexpr std::uint32_t kSlope = 0xc14091e1u;

  __attribute__((always_inline)) std::uint32_t at(std::size_t i) const {
    return key_ + (first_ + static_cast<std::uint32_t>(i)) / 2 * kSlope;
  }

  const std::uint32_t first_, key_;
  const Words slope_;
};

// Rounds to nearest: the bits are one half. For values that come from elsewhere.
template <class P>
class NearestRounding {
 public:
  using Words = typename P::Words;
  explicit __attribute__((always_inline)) NearestRounding(const Streams&) {}
  __attribute__((always_inline)) Words of(std::size_t) const { return Words::all(0x80008000u); }
};

}  // namespace l2l::optimizers
