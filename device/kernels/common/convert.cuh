// Element types of CUDA kernels, their conversions, and 16-byte accesses.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <memory>
#include <string>

#include "core/dtype.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {

__device__ inline float widen(float value) { return value; }
__device__ inline float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline float widen(__half value) { return __half2float(value); }

// Rounds to nearest, ties to even.
template <typename T>
__device__ inline T narrow(float value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(value);
  } else if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(value);
  } else {
    return value;
  }
}

// Elements of one 16-byte access.
template <typename T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

template <typename T>
struct alignas(16) Pack {
  T elements[kPack<T>];
};

template <typename T>
__device__ inline Pack<T> load_pack(const T* address) {
  return *reinterpret_cast<const Pack<T>*>(address);
}

template <typename T>
__device__ inline void store_pack(T* address, const Pack<T>& pack) {
  *reinterpret_cast<Pack<T>*>(address) = pack;
}

// Make<T>: the class of a kernel for elements of type T. Calls its constructor with `arguments`.
template <template <typename> class Make, typename Base, typename... Arguments>
std::unique_ptr<Base> make_for(DType dtype, Arguments&&... arguments) {
  switch (dtype) {
    case DType::f32:
      return std::make_unique<Make<float>>(std::forward<Arguments>(arguments)...);
    case DType::bf16:
      return std::make_unique<Make<__nv_bfloat16>>(std::forward<Arguments>(arguments)...);
    case DType::f16:
      return std::make_unique<Make<__half>>(std::forward<Arguments>(arguments)...);
    default:
      throw BadInput("no CUDA kernel for " + std::string(name_of(dtype)));
  }
}

}  // namespace l2l::device::cuda
