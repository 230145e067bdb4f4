// Rows of sixteen elements. The last row of a run is padded with zeros: the same operations, hence the same bits.
#pragma once

#include <cstddef>
#include <cstring>

namespace l2l::optimizers {

inline constexpr std::size_t kLanes = 16;

// Calls function(pointer to sixteen elements) with the row at `from`, which has `count` elements.
template <bool kTail, typename T, typename F>
inline __attribute__((always_inline)) auto load_row(const T* from, std::size_t count, const F& function) {
  if constexpr (!kTail) {
    return function(from);
  } else {
    alignas(64) T row[kLanes] = {};
    std::memcpy(row, from, count * sizeof(T));
    return function(static_cast<const T*>(row));
  }
}

// Calls function(pointer to kMost elements) to fill the row at `to`, which has room for `count`.
template <bool kTail, std::size_t kMost = kLanes, typename T, typename F>
inline __attribute__((always_inline)) void store_row(T* to, std::size_t count, const F& function) {
  if constexpr (!kTail) {
    function(to);
  } else {
    alignas(64) T row[kMost];
    function(static_cast<T*>(row));
    std::memcpy(to, row, count * sizeof(T));
  }
}

// Thirty-two elements, split into those at even and at odd positions: 16-bit arrays are loaded so in two operations,
// without a permutation.
template <class P>
struct Pair {
  P even, odd;
};

// For formats with rows of consecutive elements; load(offset) returns a row.
template <class P, typename F>
inline __attribute__((always_inline)) Pair<P> load_pair(const F& load) {
  P first = load(0), second = load(kLanes);
  part_pairs(first, second);
  return {first, second};
}
template <class P, typename F>
inline __attribute__((always_inline)) void store_pair(Pair<P> pair, const F& store) {
  join_pairs(pair.even, pair.odd);
  store(0, pair.even);
  store(kLanes, pair.odd);
}
// The sixteen bits of each element as the upper half of a word.
template <class Words>
inline __attribute__((always_inline)) Words even_halves(Words words) {
  return shift_left<16>(words);
}
template <class Words>
inline __attribute__((always_inline)) Words odd_halves(Words words) {
  return words & Words::all(0xffff0000u);
}

}  // namespace l2l::optimizers
