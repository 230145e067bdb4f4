// Sums and maxima of rows. The order of additions depends on the number of elements alone. (Reductions by `omp simd`
// end in a scalar loop over the lanes, which is slow for short rows.)
#pragma once

#include <cstdint>

#include "device/kernels/lanes.h"

namespace l2l::device::kernels {
namespace detail {

template <std::size_t Step, std::size_t... Lane>
FloatVector rotate(FloatVector vector, std::index_sequence<Lane...>) {
  return __builtin_shufflevector(vector, vector, ((Lane + Step) % kLanes)...);
}

template <std::size_t Step>
float sum_of_lanes(FloatVector vector) {
  vector += rotate<Step>(vector, std::make_index_sequence<kLanes>());
  if constexpr (Step > 1) return sum_of_lanes<Step / 2>(vector);
  return vector[0];
}

}  // namespace detail

inline float sum_of_lanes(FloatVector vector) { return detail::sum_of_lanes<kLanes / 2>(vector); }

// Sum of element(i) for i in [0, count).
template <typename Element>
inline __attribute__((always_inline)) float sum_of(std::int64_t count, Element element) {
  constexpr std::int64_t kStrip = 4 * kLanes;
  float partial[kStrip] = {};
  std::int64_t i = 0;
  for (; i + kStrip <= count; i += kStrip) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < kStrip; ++lane) partial[lane] += element(i + lane);
  }
#pragma omp simd
  for (std::int64_t lane = 0; lane < count - i; ++lane) partial[lane] += element(i + lane);
  return sum_of_lanes((load_vector(partial) + load_vector(partial + kLanes)) +
                      (load_vector(partial + 2 * kLanes) + load_vector(partial + 3 * kLanes)));
}

// Calls take(i, turn) for each vector of `count` elements, which are whole vectors, with turn = 0, 1, 2, 3, 0, ...:
// four running results, none of which waits for the last step's.
template <typename Take>
inline __attribute__((always_inline)) void in_turns(std::int64_t count, const Take& take) {
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int turn = 0; turn < 4; ++turn) take(i + turn * kLanes, turn);
  }
#pragma GCC unroll 4
  for (int turn = 0; turn < 4; ++turn) {
    if (i + turn * kLanes < count) take(i + turn * kLanes, turn);
  }
}

// The end of a sum in turns: the bits of sum_of().
inline float sum_of_turns(const FloatVector (&partial)[4]) {
  return sum_of_lanes((partial[0] + partial[1]) + (partial[2] + partial[3]));
}

// The bits of sum_of(), where `count` is whole vectors and element(i) is a vector, elements [i, i + kLanes).
template <typename Element>
inline __attribute__((always_inline)) float sum_of_vectors(std::int64_t count, const Element& element) {
  FloatVector partial[4] = {};
  in_turns(count, [&](std::int64_t i, int turn) { partial[turn] += element(i); });
  return sum_of_turns(partial);
}

// Largest of `count` (at least 1) elements; NaNs may be passed over.
inline float largest_of(const float* elements, std::int64_t count) {
  float largest[kLanes];
  for (float& lane : largest) lane = elements[0];
  std::int64_t i = 0;
  FloatVector running = load_vector(largest);
  for (; i + kLanes <= count; i += kLanes) {
    const FloatVector next = load_vector(elements + i);
    running = next > running ? next : running;
  }
  store_vector(largest, running);
  for (; i < count; ++i) largest[0] = elements[i] > largest[0] ? elements[i] : largest[0];
  for (int step = kLanes / 2; step > 0; step /= 2) {
#pragma omp simd
    for (int lane = 0; lane < step; ++lane) {
      largest[lane] = largest[lane] > largest[lane + step] ? largest[lane] : largest[lane + step];
    }
  }
  return largest[0];
}

}  // namespace l2l::device::kernels
