// Formats of the master (optimizers/format.h, MasterFormat).
#pragma once

#include <cstddef>
#include <cstdint>

#include "optimizers/streams.h"
#include "optimizers/vector/float_rows.h"
#include "optimizers/vector/prefetch.h"
#include "optimizers/vector/tail.h"

namespace l2l::optimizers {

// The wire is the master.
template <class P>
class MasterF32 : public FloatRows<P> {
 public:
  explicit __attribute__((always_inline)) MasterF32(const Streams& streams) : FloatRows<P>(streams.wire) {}

  __attribute__((always_inline)) void finish() const {}
};

// wire = (bits + 0x8000) >> 16, low = bits & 0xffff. Where the low half is 0x8000 or more, the wire was rounded up;
// adding the low half as a signed number undoes it. Exact for every finite value whose rounding does not overflow to
// infinity.
template <class P>
class MasterSplit {
 public:
  using Words = typename P::Words;
  explicit __attribute__((always_inline)) MasterSplit(const Streams& streams)
      : wire_(static_cast<std::uint16_t*>(streams.wire)), low_(static_cast<std::uint16_t*>(streams.master)) {}

  __attribute__((always_inline)) void prefetch(std::size_t i) const {
    prefetch_rows(wire_ + i);
    prefetch_rows(low_ + i);
  }
  template <bool kTail>
  __attribute__((always_inline)) P load(std::size_t i, std::size_t count) const {
    const Words wire = load_row<kTail>(
        wire_ + i, count,
        [](const std::uint16_t* from) __attribute__((always_inline)) { return Words::load_u16(from); });
    const Words low = load_row<kTail>(
        low_ + i, count,
        [](const std::uint16_t* from) __attribute__((always_inline)) { return Words::load_i16(from); });
    return from_bits(shift_left<16>(wire) + low);
  }
  template <bool kTail>
  __attribute__((always_inline)) void store(std::size_t i, std::size_t count, P value) const {
    const Words all = bits(value), wire = shift_right<16>(all + Words::all(0x8000u));
    store_row<kTail>(
        wire_ + i, count, [&](std::uint16_t * to) __attribute__((always_inline)) { wire.store_u16(to); });
    store_row<kTail>(
        low_ + i, count, [&](std::uint16_t * to) __attribute__((always_inline)) { all.store_u16(to); });
  }
  __attribute__((always_inline)) Pair<P> load_pair(std::size_t i) const {
    const Words wire = Words::load(wire_ + i), low = Words::load(low_ + i);
    return {from_bits(even_halves(wire) + signed_lower_halves(low)),
            from_bits(odd_halves(wire) + shift_right_signed<16>(low))};
  }
  __attribute__((always_inline)) void store_pair(std::size_t i, Pair<P> value) const {
    const Words even = bits(value.even), odd = bits(value.odd), half = Words::all(0x8000u);
    join_halves(even + half, odd + half).store(wire_ + i);
    join_lower_halves(even, odd).store(low_ + i);
  }
  __attribute__((always_inline)) void finish() const {}

 private:
  std::uint16_t *wire_, *low_;
};

// The fp32 master beside its f16 wire. The wire is only written, past the caches if it is aligned.
template <class P>
class MasterBesideF16 {
 public:
  explicit __attribute__((always_inline)) MasterBesideF16(const Streams& streams)
      : rows_(streams.master),
        wire_(static_cast<std::uint16_t*>(streams.wire)),
        aligned_(reinterpret_cast<std::uintptr_t>(streams.wire) % 32 == 0) {}

  __attribute__((always_inline)) void prefetch(std::size_t i) const { rows_.prefetch(i); }
  template <bool kTail>
  __attribute__((always_inline)) P load(std::size_t i, std::size_t count) const {
    return rows_.template load<kTail>(i, count);
  }
  template <bool kTail>
  __attribute__((always_inline)) void store(std::size_t i, std::size_t count, P value) const {
    rows_.template store<kTail>(i, count, value);
    if (!kTail && aligned_) {
      value.stream_f16(wire_ + i);
    } else {
      store_row<kTail>(
          wire_ + i, count, [&](std::uint16_t * to) __attribute__((always_inline)) { value.store_f16(to); });
    }
  }
  __attribute__((always_inline)) Pair<P> load_pair(std::size_t i) const { return rows_.load_pair(i); }
  __attribute__((always_inline)) void store_pair(std::size_t i, Pair<P> value) const {
    optimizers::store_pair(
        value, [&](std::size_t k, P row) __attribute__((always_inline)) { store<false>(i + k, kLanes, row); });
  }
  // Orders the writes of the wire before later stores.
  __attribute__((always_inline)) void finish() const { P::fence(); }

 private:
  FloatRows<P> rows_;
  std::uint16_t* wire_;
  bool aligned_;
};

}  // namespace l2l::optimizers
