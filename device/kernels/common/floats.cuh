// A few neighbouring elements as floats: 16-byte accesses where they are whole packs, single ones otherwise.
#pragma once

#include "device/kernels/common/convert.cuh"

namespace l2l::device::cuda {

template <int Count>
struct Floats {
  float elements[Count];
  __device__ float& operator[](int i) { return elements[i]; }
  __device__ float operator[](int i) const { return elements[i]; }
};

template <typename T>
__device__ inline Floats<kPack<T>> widen(const Pack<T>& pack) {
  Floats<kPack<T>> floats;
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) floats[i] = widen(pack.elements[i]);
  return floats;
}

// `address` is 16-byte aligned when Count is a multiple of kPack<T>.
template <int Count, typename T>
__device__ inline Floats<Count> load_floats(const T* address) {
  Floats<Count> floats;
  if constexpr (Count % kPack<T> == 0) {
#pragma unroll
    for (int first = 0; first < Count; first += kPack<T>) {
      const Pack<T> pack = load_pack(address + first);
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) floats[first + i] = widen(pack.elements[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < Count; ++i) floats[i] = widen(address[i]);
  }
  return floats;
}

// Rounds each to T. `address` as above.
template <int Count, typename T>
__device__ inline void store_floats(T* address, const Floats<Count>& floats) {
  if constexpr (Count % kPack<T> == 0) {
#pragma unroll
    for (int first = 0; first < Count; first += kPack<T>) {
      Pack<T> pack;
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) pack.elements[i] = narrow<T>(floats[first + i]);
      store_pack(address + first, pack);
    }
  } else {
#pragma unroll
    for (int i = 0; i < Count; ++i) address[i] = narrow<T>(floats[i]);
  }
}

// `value` rounded to T. Use __fmul_rn and the like before it, so that no multiply-add is contracted across it.
template <typename T>
__device__ inline float rounded(float value) {
  return widen(narrow<T>(value));
}

}  // namespace l2l::device::cuda
