// A few neighbouring elements, as they are stored or as floats: 16-byte accesses where they are whole packs, single
// ones otherwise.
#pragma once

#include "device/kernels/common/convert.cuh"

namespace l2l::device::cuda {

template <int Count, typename T>
struct Elements {
  T elements[Count];
  __device__ T& operator[](int i) { return elements[i]; }
  __device__ T operator[](int i) const { return elements[i]; }
};

template <int Count>
using Floats = Elements<Count, float>;

// `address` is 16-byte aligned when Count is a multiple of kPack<T>.
template <int Count, typename T>
__device__ inline Elements<Count, T> load_elements(const T* address) {
  Elements<Count, T> elements;
  if constexpr (Count % kPack<T> == 0) {
#pragma unroll
    for (int first = 0; first < Count; first += kPack<T>) {
      const Pack<T> pack = load_pack(address + first);
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) elements[first + i] = pack.elements[i];
    }
  } else {
#pragma unroll
    for (int i = 0; i < Count; ++i) elements[i] = address[i];
  }
  return elements;
}

// `address` as above.
template <int Count, typename T>
__device__ inline void store_elements(T* address, const Elements<Count, T>& elements) {
  if constexpr (Count % kPack<T> == 0) {
#pragma unroll
    for (int first = 0; first < Count; first += kPack<T>) {
      Pack<T> pack;
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) pack.elements[i] = elements[first + i];
      store_pack(address + first, pack);
    }
  } else {
#pragma unroll
    for (int i = 0; i < Count; ++i) address[i] = elements[i];
  }
}

template <int Count, typename T>
__device__ inline Floats<Count> load_floats(const T* address) {
  const Elements<Count, T> elements = load_elements<Count>(address);
  Floats<Count> floats;
#pragma unroll
  for (int i = 0; i < Count; ++i) floats[i] = widen(elements[i]);
  return floats;
}

// Rounds each to T.
template <int Count, typename T>
__device__ inline void store_floats(T* address, const Floats<Count>& floats) {
  Elements<Count, T> elements;
#pragma unroll
  for (int i = 0; i < Count; ++i) elements[i] = narrow<T>(floats[i]);
  store_elements(address, elements);
}

// `value` rounded to T. Use __fmul_rn and the like before it, so that no multiply-add is contracted across it.
template <typename T>
__device__ inline float rounded(float value) {
  return widen(narrow<T>(value));
}

}  // namespace l2l::device::cuda
