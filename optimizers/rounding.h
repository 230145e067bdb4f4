// The random bits of stochastic rounding: a pure function of seed, group, update and element. Independent of threads,
// instruction set and the cut into runs.
#pragma once

#include <cstdint>

#include "core/philox.h"
#include "optimizers/streams.h"

namespace l2l::optimizers {

// Of elements [block * 2^32, (block + 1) * 2^32) of group `group` in its update number `count`.
constexpr __attribute__((always_inline)) RoundingKey rounding_key(std::uint64_t seed, std::uint32_t group,
                                                                  std::uint64_t count, std::uint32_t block) {
  // No microbatch and op of a layer are these.
  const RngKey key{
      .seed = seed, .step = static_cast<std::uint32_t>(count), .layer = group, .microbatch = (1u << 24) - 1, .op = 255};
  const PhiloxBlock words = philox(key, block);
  return {words[0], words[1]};
}

// Thirty-two bits per element: the low half for the first moment, the high half for the second; two neighbours share
// them, halves exchanged. A mixing function of two multiplications (after C. Wellons, "lowbias32", 2018), keyed before
// and between them.
template <class P>
class StochasticRounding {
 public:
  using Words = typename P::Words;
  explicit __attribute__((always_inline)) StochasticRounding(const Streams& streams)
      : first_(streams.index), key0_(Words::all(streams.key.word0)), key1_(Words::all(streams.key.word1)) {}

  // Of elements [i, i + 16) of the run; i is even. Two neighbours share a word: the second has its halves exchanged.
  __attribute__((always_inline)) Words of(std::size_t i) const {
    const Words lane = Words::ramp(), odd = Words::all(0) - (lane & Words::all(1));
    const Words x = mixed(at(i) + (lane & Words::all(0xfffffffeu)));
    return x ^ ((x ^ exchanged(x)) & odd);
  }
  // Of elements i, i + 2, ... i + 30; of those that follow them, exchanged().
  __attribute__((always_inline)) Words of_every_second(std::size_t i) const {
    return mixed(at(i) + shift_left<1>(Words::ramp()));
  }
  static __attribute__((always_inline)) Words exchanged(Words x) { return shift_left<16>(x) | shift_right<16>(x); }

 private:
  __attribute__((always_inline)) Words at(std::size_t i) const {
    return Words::all(first_ + static_cast<std::uint32_t>(i));
  }
  __attribute__((always_inline)) Words mixed(Words x) const {
    x = (x ^ key0_) * Words::all(0x7feb352du);
    x = x ^ shift_right<15>(x);
    x = (x + key1_) * Words::all(0x846ca68bu);
    return x ^ shift_right<16>(x);
  }

  std::uint32_t first_;
  Words key0_, key1_;
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
