// A moment in fp32: 4 bytes per parameter, exact.
#pragma once

#include <cstddef>

#include "optimizers/streams.h"
#include "optimizers/vector/float_rows.h"

namespace l2l::optimizers {

// The interface of all formats of moments. open() precedes the rows of each block of 512 elements. Where kBlocks is
// set, store() only takes note; close(block) ends the block, and write_pair() then writes its rows, two by two.
template <class P>
class MomentF32 {
 public:
  static constexpr bool kRounds = false;  // needs random bits
  static constexpr bool kPairs = false;   // as a first moment: the loop takes pairs of rows
  static constexpr bool kBlocks = false;  // codes depend on the whole block
  struct Workspace {};
  __attribute__((always_inline)) MomentF32(const MomentStream& stream, Workspace&) : rows_(stream.codes) {}

  __attribute__((always_inline)) void prefetch(std::size_t i) const { rows_.prefetch(i); }
  __attribute__((always_inline)) void open(std::size_t) const {}
  template <bool kTail>
  __attribute__((always_inline)) P load(std::size_t i, std::size_t count) const {
    return rows_.template load<kTail>(i, count);
  }
  template <bool kTail>
  __attribute__((always_inline)) void store(std::size_t i, std::size_t count, P value, typename P::Words) const {
    rows_.template store<kTail>(i, count, value);
  }
  // Elements [i, i + 32).
  __attribute__((always_inline)) Pair<P> load_pair(std::size_t i) const { return rows_.load_pair(i); }
  __attribute__((always_inline)) void store_pair(std::size_t i, Pair<P> value, typename P::Words,
                                                 typename P::Words) const {
    rows_.store_pair(i, value);
  }

 private:
  FloatRows<P> rows_;
};

// For optimizers without this moment.
template <class P>
struct NoMoment {
  static constexpr bool kRounds = false, kPairs = false, kBlocks = false;
  struct Workspace {};
  __attribute__((always_inline)) NoMoment(const MomentStream&, Workspace&) {}
  __attribute__((always_inline)) void prefetch(std::size_t) const {}
  __attribute__((always_inline)) void open(std::size_t) const {}
  template <bool kTail>
  __attribute__((always_inline)) P load(std::size_t, std::size_t) const {
    return P::all(0);
  }
  template <bool kTail>
  __attribute__((always_inline)) void store(std::size_t, std::size_t, P, typename P::Words) const {}
  __attribute__((always_inline)) Pair<P> load_pair(std::size_t) const { return {P::all(0), P::all(0)}; }
  __attribute__((always_inline)) void store_pair(std::size_t, Pair<P>, typename P::Words, typename P::Words) const {}
};

}  // namespace l2l::optimizers
