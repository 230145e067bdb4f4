// Formats of gradients, which are only read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "optimizers/streams.h"
#include "optimizers/vector/prefetch.h"
#include "optimizers/vector/tail.h"

namespace l2l::optimizers {

struct GradientF32 {
  static constexpr DType kType = DType::f32;
  using Element = float;
  template <class P>
  static __attribute__((always_inline)) P load(const float* from) {
    return P::load(from);
  }
  template <class P>
  static __attribute__((always_inline)) Pair<P> load_pair(const float* from) {
    return optimizers::load_pair<P>([&](std::size_t k) __attribute__((always_inline)) { return load<P>(from + k); });
  }
};

struct GradientBf16 {
  static constexpr DType kType = DType::bf16;
  using Element = std::uint16_t;
  template <class P>
  static __attribute__((always_inline)) P load(const std::uint16_t* from) {
    return from_bits(shift_left<16>(P::Words::load_u16(from)));
  }
  template <class P>
  static __attribute__((always_inline)) Pair<P> load_pair(const std::uint16_t* from) {
    const auto words = P::Words::load(from);
    return {from_bits(even_halves(words)), from_bits(odd_halves(words))};
  }
};

struct GradientF16 {
  static constexpr DType kType = DType::f16;
  using Element = std::uint16_t;
  template <class P>
  static __attribute__((always_inline)) P load(const std::uint16_t* from) {
    return P::load_f16(from);
  }
  template <class P>
  static __attribute__((always_inline)) Pair<P> load_pair(const std::uint16_t* from) {
    return optimizers::load_pair<P>([&](std::size_t k) __attribute__((always_inline)) { return load<P>(from + k); });
  }
};

// Sum of the contributions in fp32, in their order, times the factor. A factor of 1 is no special case: it changes
// nothing, and for a branch on it g++ 12 stores the sum in halves and loads it whole, which no processor forwards.
template <class P, class Format>
class GradientSum {
 public:
  explicit __attribute__((always_inline)) GradientSum(const Streams& streams)
      : parts_(streams.gradients), count_(streams.contributions), factor_(P::all(streams.factor)) {}

  __attribute__((always_inline)) void prefetch(std::size_t i) const {
    for (std::size_t k = 0; k < count_; ++k) prefetch_rows(part(k) + i);
  }
  template <bool kTail>
  __attribute__((always_inline)) P sum(std::size_t i, std::size_t count) const {
    P total = row<kTail>(0, i, count);
    for (std::size_t k = 1; k < count_; ++k) total = total + row<kTail>(k, i, count);
    return total;
  }
  template <bool kTail>
  __attribute__((always_inline)) P load(std::size_t i, std::size_t count) const {
    return sum<kTail>(i, count) * factor_;
  }
  __attribute__((always_inline)) Pair<P> load_pair(std::size_t i) const {
    Pair<P> total = Format::template load_pair<P>(part(0) + i);
    for (std::size_t k = 1; k < count_; ++k) {
      const Pair<P> next = Format::template load_pair<P>(part(k) + i);
      total = {total.even + next.even, total.odd + next.odd};
    }
    return {total.even * factor_, total.odd * factor_};
  }

 private:
  using Element = typename Format::Element;
  __attribute__((always_inline)) const Element* part(std::size_t k) const {
    return static_cast<const Element*>(parts_[k]);
  }
  template <bool kTail>
  __attribute__((always_inline)) P row(std::size_t k, std::size_t i, std::size_t count) const {
    return load_row<kTail>(
        part(k) + i, count,
        [](const Element* from) __attribute__((always_inline)) { return Format::template load<P>(from); });
  }

  const void* const* parts_;
  std::size_t count_;
  P factor_;
};

// For kernels that read no gradient.
template <class P>
struct NoGradient {
  explicit __attribute__((always_inline)) NoGradient(const Streams&) {}
  __attribute__((always_inline)) void prefetch(std::size_t) const {}
  template <bool kTail>
  __attribute__((always_inline)) P load(std::size_t, std::size_t) const {
    return P::all(0);
  }
  __attribute__((always_inline)) Pair<P> load_pair(std::size_t) const { return {P::all(0), P::all(0)}; }
};

}  // namespace l2l::optimizers
