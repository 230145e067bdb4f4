// Rows of sixteen elements, the last one of a run padded with zeros: the same operations, hence the same bits.
#pragma once

#include <cstddef>
#include <cstring>

namespace l2l::optimizers {

inline constexpr std::size_t kLanes = 16;

// Calls function(pointer to sixteen elements) with the row at `from`, of which `count` are there.
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

// The same for a row that `function` fills.
template <bool kTail, typename T, typename F>
inline __attribute__((always_inline)) void store_row(T* to, std::size_t count, const F& function) {
  if constexpr (!kTail) {
    function(to);
  } else {
    alignas(64) T row[kLanes];
    function(static_cast<T*>(row));
    std::memcpy(to, row, count * sizeof(T));
  }
}

}  // namespace l2l::optimizers
