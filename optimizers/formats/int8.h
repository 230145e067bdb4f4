// A moment in 8-bit codes. A block of 512 elements has sixteen lanes of 32 (element i is in lane i % 32 / 2), each with
// a bf16 scale of at least its largest magnitude: 1 + 2/32 bytes per parameter. Experimental.
//
// Codes are spaced like floating point numbers with an offset: evenly near zero, and in proportion to 1 + t from there
// on, where t = top * magnitude / scale. Code c stands for
//
//   1 + t = 2^floor(c / 16) (1 + (c mod 16) / 16)     exponent and first four bits of the fraction of 1 + t
//
//                   code                               top      step near zero      steps elsewhere
//   first moment    7 bits, and the sign above them    247      scale / 3,952       1/31 to 1/16 of 1 + t
//   second moment   8 bits                             63,487   scale / 1,015,792   1/31 to 1/16 of 1 + t
//
// An error is at most a step. Rounding is stochastic, so the mean is the value itself. Only in a second moment, what is
// below the first step is raised to it, so that nothing is divided by epsilon alone; where the whole lane is zero, the
// step is zero, too. Scales below 2^-109 lose precision.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "optimizers/streams.h"
#include "optimizers/vector/prefetch.h"
#include "optimizers/vector/tail.h"

namespace l2l::optimizers {

template <class P, bool kSign>
class MomentInt8 {
 public:
  using Words = typename P::Words;
  static constexpr bool kRounds = true, kPairs = true, kBlocks = true;
  // Apart from the rest, whose address nothing knows, so that it stays in registers.
  class Workspace {
    friend class MomentInt8;
    alignas(64) float values_[2][512];  // of the open block and of the closed one
  };
  __attribute__((always_inline)) MomentInt8(const MomentStream& stream, Workspace& workspace)
      : at_(static_cast<std::uint8_t*>(stream.codes)),
        scales_(stream.scales),
        to_(at_),
        open_(workspace.values_[0]),
        closed_(workspace.values_[1]),
        of_code_(P::all(0)),
        of_value_(P::all(0)),
        most_(P::all(0)) {}

  __attribute__((always_inline)) void prefetch(std::size_t i) const { prefetch_rows(at_ + i); }
  __attribute__((always_inline)) void open(std::size_t block) {
    of_code_ = from_bits(shift_left<16>(Words::load_u16(scales_ + block / 32))) * P::all(kFromCode);
    most_ = P::all(0);
  }
  __attribute__((always_inline)) Pair<P> load_pair(std::size_t i) const {
    const Words codes = Words::load_byte_pairs(at_ + i);
    // Both halves of a word at once.
    const Words shifted = (shift_left<3>(codes) & Words::all(kCode | kCode >> 16)) | Words::all(kTwo | kTwo >> 16);
    return {decoded(even_halves(shifted), shift_left<24>(codes), of_code_),
            decoded(odd_halves(shifted), shift_left<8>(codes), of_code_)};
  }
  __attribute__((always_inline)) void store_pair(std::size_t i, Pair<P> value, Words, Words) {
    most_ = max(most_, max(magnitude(value.even), magnitude(value.odd)));
    value.even.store(open_ + i % kBlock);
    value.odd.store(open_ + i % kBlock + kLanes);
  }
  // For the few elements behind the last whole rows of a run.
  template <bool kTail>
  __attribute__((always_inline)) P load(std::size_t i, std::size_t count) const {
    const Words code = load_row<kTail>(
        at_ + i, count, [](const std::uint8_t* from) __attribute__((always_inline)) { return Words::load_u8(from); });
    float of_lanes[kLanes], of_elements[kLanes];
    of_code_.store(of_lanes);
    for (std::size_t k = 0; k < kLanes; ++k) of_elements[k] = of_lanes[place(i + k) % kLanes];
    const Words shifted = (shift_left<19>(code) & Words::all(kCode)) | Words::all(kTwo);
    return decoded(shifted, shift_left<24>(code), P::load(of_elements));
  }
  template <bool kTail>
  __attribute__((always_inline)) void store(std::size_t i, std::size_t count, P value, Words) {
    float values[kLanes], magnitudes[kLanes], most[kLanes];
    value.store(values);
    magnitude(value).store(magnitudes);
    most_.store(most);
    if (i % 32 == 0) std::fill_n(open_ + i % kBlock, 32, 0.0f);  // places that no element has are read with the others
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t at = place(i + k);
      open_[at] = values[k];
      if (!(magnitudes[k] <= most[at % kLanes])) most[at % kLanes] = magnitudes[k];
    }
    most_ = P::load(most);
  }
  __attribute__((always_inline)) void close(std::size_t block) {
    const Words most = bits(most_) & Words::all(0x7fffffffu);  // a zero may have a sign
    const Words upper = shift_right<16>(min(most + Words::all(0xffffu), Words::all(0x7f7fffffu)));
    upper.store_u16(scales_ + block / 32);
    of_value_ = P::all(kToCode) / max(from_bits(shift_left<16>(upper)), P::all(0x1p-110f));
    to_ = at_ + block;
    float* const closed = open_;
    open_ = closed_;
    closed_ = closed;
  }
  template <bool kTail>
  __attribute__((always_inline)) void write_pair(std::size_t i, std::size_t count, Words even, Words odd) const {
    const P first = P::load(closed_ + i), second = P::load(closed_ + i + kLanes);
    const Words shifted = shift_right<3>(join_halves(encoded(first, even), encoded(second, odd)));
    Words codes = shifted & Words::all(kSign ? 0x007f007fu : 0x00ff00ffu);
    if constexpr (kSign) {
      codes = codes | (shift_right<8>(join_halves(bits(first), bits(second))) & Words::all(0x00800080u));
    }
    store_row<kTail, 2 * kLanes>(
        to_ + i, count, [&](std::uint8_t * to) __attribute__((always_inline)) { codes.store_byte_pairs(to); });
  }

 private:
  static constexpr std::size_t kBlock = 512;
  static constexpr float kTop = kSign ? 247.0f : 63487.0f;
  // So far from 1 / (2 top) and 2 top that the largest code never stands for more than its scale, whatever is rounded.
  static constexpr float kFromCode = 0.5f / kTop * (1 - 0x1p-22f), kToCode = 2 * kTop * (1 + 0x1p-22f);
  // The bits of 1 + t that a code has. They are computed as those of 2 + 2 t: in 2.0f all of them are 0.
  static constexpr std::uint32_t kCode = kSign ? 0x03f80000u : 0x07f80000u, kTwo = 0x40000000u;

  // Where the value of an element lies in its block: a pair of rows has those at even positions first.
  static __attribute__((always_inline)) std::size_t place(std::size_t i) {
    return i % kBlock / 32 * 32 + i % 2 * kLanes + i % 32 / 2;
  }
  static __attribute__((always_inline)) P magnitude(P value) {
    return kSign ? from_bits(bits(value) & Words::all(0x7fffffffu)) : value;
  }
  // `shifted`: 2 + 2 t. The sign is the highest bit of `sign`, whose others are ignored.
  static __attribute__((always_inline)) P decoded(Words shifted, Words sign, P factor) {
    const P value = fused_difference(from_bits(shifted), factor, factor + factor);
    return kSign ? from_bits(bits(value) | (sign & Words::all(0x80000000u))) : value;
  }
  // The code in the bits kCode, without the sign; other bits are of no account. `random` is below 2^16.
  __attribute__((always_inline)) Words encoded(P value, Words random) const {
    P shifted = min(fused_sum(magnitude(value), of_value_, P::all(2)), P::all(2 + 2 * kTop));
    if constexpr (!kSign) shifted = max(shifted, P::all(2.125f));
    return bits(shifted) + shift_left<3>(random);
  }

  std::uint8_t* const at_;
  std::uint16_t* const scales_;
  std::uint8_t* to_;       // codes of the closed block
  float *open_, *closed_;  // values of the blocks
  P of_code_, of_value_, most_;
};

template <class P>
using MomentInt8First = MomentInt8<P, true>;
template <class P>
using MomentInt8Second = MomentInt8<P, false>;

}  // namespace l2l::optimizers
