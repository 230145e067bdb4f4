// A moment in 8-bit codes. A block of 512 elements has sixteen lanes of 32 (element i is in lane i % 16), each with a
// bf16 scale of at least its largest magnitude: 1 + 2/32 bytes per parameter. Experimental.
//
//                   code q           value                     error of one rounding at most
//   first moment    [-127, 127]      q |q| scale / 127^2       scale (2 |q| + 1) / 127^2
//   second moment   [0, 255]         q^4 scale / 255^4         scale ((q + 1)^4 - q^4) / 255^4
//
// with q of the neighbour nearer to zero. Small values keep a relative precision over a range of 10^4 (second moment:
// 10^9). Rounding is stochastic, so the mean is the value itself; but a second moment above 0 never becomes 0, so that
// nothing is divided by epsilon alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "optimizers/streams.h"
#include "optimizers/vector/prefetch.h"
#include "optimizers/vector/roots.h"
#include "optimizers/vector/tail.h"

namespace l2l::optimizers {

struct Int8First {
  template <class P>
  static __attribute__((always_inline)) P decode_factor(P scale) {
    return scale / P::all(16129.0f);
  }
  template <class P>
  static __attribute__((always_inline)) P encode_factor(P scale) {
    return P::all(16129.0f) / max(scale, P::all(0x1p-100f));
  }
  template <class P>
  static __attribute__((always_inline)) P decode(const std::uint8_t* from, P factor) {
    const P q = to_float(P::Words::load_i8(from));
    return q * from_bits(bits(q) & P::Words::all(0x7fffffffu)) * factor;
  }
  // `uniform` in (0, 1).
  template <class P>
  static __attribute__((always_inline)) typename P::Words encode(P value, P factor, P uniform) {
    using Words = typename P::Words;
    const Words most = Words::all(127), negative = shift_right<31>(bits(value));
    const P target = from_bits(bits(value) & Words::all(0x7fffffffu)) * factor;  // q^2
    const Words below = min(truncate(rough_sqrt(target)), most);
    const P q = to_float(below);
    const Words up = is_greater(target - q * q, uniform * (q + q + P::all(1)));
    const Words magnitude = min(below + up, most);
    return (magnitude ^ (Words::all(0) - negative)) + negative;
  }
};

struct Int8Second {
  template <class P>
  static __attribute__((always_inline)) P decode_factor(P scale) {
    return scale;
  }
  template <class P>
  static __attribute__((always_inline)) P encode_factor(P scale) {
    return P::all(1) / max(scale, P::all(0x1p-120f));
  }
  template <class P>
  static __attribute__((always_inline)) P decode(const std::uint8_t* from, P factor) {
    const P q = to_float(P::Words::load_u8(from));
    const P square = q * q * P::all(1.0f / 65025);
    return square * square * factor;
  }
  template <class P>
  static __attribute__((always_inline)) typename P::Words encode(P value, P factor, P uniform) {
    using Words = typename P::Words;
    const Words most = Words::all(255);
    const P share = value * factor;
    const Words below = min(truncate(rough_fourth_root(share) * P::all(255)), most);
    const P q = to_float(below), next = q + P::all(1);
    const P floor = (q * q) * (q * q), ceiling = (next * next) * (next * next);
    const Words up = is_greater(share * P::all(4228250625.0f) - floor, uniform * (ceiling - floor));
    return max(min(below + up, most), is_greater(value, P::all(0)));
  }
};

template <class P, class Map>
class MomentInt8 {
 public:
  using Words = typename P::Words;
  static constexpr bool kRounds = true, kPairs = false;
  explicit __attribute__((always_inline)) MomentInt8(const MomentStream& stream)
      : at_(static_cast<std::uint8_t*>(stream.codes)), scales_(stream.scales), factor_(P::all(0)), most_(P::all(0)) {}

  __attribute__((always_inline)) void prefetch(std::size_t i) const { prefetch_rows(at_ + i); }
  __attribute__((always_inline)) void open(std::size_t block) {
    factor_ = Map::decode_factor(from_bits(shift_left<16>(Words::load_u16(scales_ + block / 32))));
    most_ = P::all(0);
  }
  template <bool kTail>
  __attribute__((always_inline)) P load(std::size_t i, std::size_t count) const {
    return load_row<kTail>(
        at_ + i,
        count, [&](const std::uint8_t* from) __attribute__((always_inline)) { return Map::decode(from, factor_); });
  }
  template <bool kTail>
  __attribute__((always_inline)) void store(std::size_t i, std::size_t, P value, Words) {
    most_ = max(most_, from_bits(bits(value) & Words::all(0x7fffffffu)));
    value.store(values_ + i % 512);
  }
  // Encodes rows [block, end) with the random bits from bit kShift on.
  template <int kShift, class Rounding>
  __attribute__((always_inline)) void close(std::size_t block, std::size_t end, const Rounding& rounding) {
    const Words upper = shift_right<16>(min(bits(most_) + Words::all(0xffffu), Words::all(0x7f7fffffu)));
    upper.store_u16(scales_ + block / 32);
    const P factor = Map::encode_factor(from_bits(shift_left<16>(upper)));
    std::size_t i = block;
    for (; i + kLanes <= end; i += kLanes) code(i, factor, uniform<kShift>(rounding.of(i))).store_u8(at_ + i);
    if (i == end) return;
    store_row<true>(
        at_ + i, end - i, [&](std::uint8_t * to) __attribute__((always_inline)) {
          code(i, factor, uniform<kShift>(rounding.of(i))).store_u8(to);
        });
  }

 private:
  template <int kShift>
  static __attribute__((always_inline)) P uniform(Words random) {
    const Words half = kShift == 0 ? random & Words::all(0xffffu) : shift_right<16>(random);
    return (to_float(half) + P::all(0.5f)) * P::all(0x1p-16f);
  }
  __attribute__((always_inline)) Words code(std::size_t i, P factor, P uniform) const {
    return Map::encode(P::load(values_ + i % 512), factor, uniform);
  }

  std::uint8_t* at_;
  std::uint16_t* scales_;
  P factor_, most_;
  alignas(64) float values_[512];
};

template <class P>
using MomentInt8First = MomentInt8<P, Int8First>;
template <class P>
using MomentInt8Second = MomentInt8<P, Int8Second>;

}  // namespace l2l::optimizers
