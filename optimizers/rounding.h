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

// Thirty-two bits per element: the low half for the first moment, the high half for the second. A mixing function of
// two multiplications (after C. Wellons, "lowbias32", 2018), keyed before and between them.
template <class P>
class StochasticRounding {
 public:
  using Words = typename P::Words;
  explicit __attribute__((always_inline)) StochasticRounding(const Streams& streams)
      : first_(streams.index), key0_(Words::all(streams.key.word0)), key1_(Words::all(streams.key.word1)) {}

  // Of elements [i, i + 16) of the run.
  __attribute__((always_inline)) Words of(std::size_t i) const {
    Words x = Words::all(first_ + static_cast<std::uint32_t>(i)) + Words::ramp();
    x = (x ^ key0_) * Words::all(0x7feb352du);
    x = x ^ shift_right<15>(x);
    x = (x + key1_) * Words::all(0x846ca68bu);
    return x ^ shift_right<16>(x);
  }

 private:
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
