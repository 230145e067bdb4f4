// The random bits of stochastic rounding: a pure function of seed, group, update and element. Independent of threads,
// instruction set and the cut into runs.
#pragma once

#include <cstdint>

#include "core/philox.h"
#include "optimizers/streams.h"

namespace l2l::optimizers {

// Key for elements [block * 2^32, (block + 1) * 2^32) of group `group` in its update number `count`.
constexpr __attribute__((always_inline)) std::uint32_t rounding_key(std::uint64_t seed, std::uint32_t group,
                                                                    std::uint64_t count, std::uint32_t block) {
  // No op of a layer has this microbatch and op number.
  const RngKey key{
      .seed = seed, .step = static_cast<std::uint32_t>(count), .layer = group, .microbatch = (1u << 24) - 1, .op = 255};
  return philox(key, block)[0];
}

// Thirty-two bits per element: the low half for the first moment, the high half for the second. Two neighbours share
// them with halves exchanged. The bits of pair n are key + n * kSlope modulo 2^32, an additive recurrence (Weyl, 1916).
// Keys of updates are independent, so over the updates each value is uniform. Within one update the values of
// consecutive elements are spread evenly in both halves, by the two-dimensional slopes of M. Roberts ("The unreasonable
// effectiveness of quasirandom sequences", 2018: 1 / p and 1 / p^2 with p^3 = p + 1), so that the rounding errors of a
// tensor cancel better than independent ones.
template <class P>
class StochasticRounding {
 public:
  using Words = typename P::Words;
  explicit __attribute__((always_inline)) StochasticRounding(const Streams& streams)
      : first_(streams.index), key_(streams.key), slope_(Words::ramp() * Words::all(kSlope)) {}

  // For elements [i, i + 16) of the run; i is even. Of two neighbours the second has the halves exchanged.
  __attribute__((always_inline)) Words of(std::size_t i) const {
    const Words lane = Words::ramp(), odd = Words::all(0) - (lane & Words::all(1));
    const Words x = Words::all(at(i)) + shift_right<1>(lane) * Words::all(kSlope);
    return x ^ ((x ^ exchanged(x)) & odd);
  }
  // For elements i, i + 2, ... i + 30; exchanged() gives those of the elements after them.
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

// Rounds to nearest: all random bits are one half. For values that are converted, not updated.
template <class P>
class NearestRounding {
 public:
  using Words = typename P::Words;
  explicit __attribute__((always_inline)) NearestRounding(const Streams&) {}
  __attribute__((always_inline)) Words of(std::size_t) const { return Words::all(0x80008000u); }
};

}  // namespace l2l::optimizers
