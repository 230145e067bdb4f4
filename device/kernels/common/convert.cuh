// Element types of CUDA kernels, their conversions, and 16-byte accesses.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <string>

#include "core/fixed_point.h"
#include "device/kernels/common/cuda_kernel.h"
#include "l2l/errors.h"

namespace l2l::device::cuda {

__device__ inline float widen(float value) { return value; }
__device__ inline float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline float widen(__half value) { return __half2float(value); }

// Fixed-point numbers of streams (core/fixed_point.h), bit for bit as on the host.
using Fixed = std::int32_t;
__device__ inline float widen(Fixed value) {
  return value == kLostFixed ? __int_as_float(0x7fc00000) : __fmul_rn(__int2float_rn(value), 1 / kFixedOne);
}
__device__ inline Fixed to_fixed_units(float value) {
  const float units = __fmul_rn(value, kFixedOne);
  return fabsf(units) < 0x1p31f ? __float2int_rn(units) : kLostFixed;
}

// Rounds to nearest, ties to even.
template <typename T>
__device__ inline T narrow(float value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(value);
  } else if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(value);
  } else if constexpr (std::is_same_v<T, Fixed>) {
    return to_fixed_units(value);
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

// The kernel class for elements of `dtype`.
template <template <typename> class KernelFor>
std::unique_ptr<Kernel> make_for(DType dtype, const Context& context, const OpView& op) {
  switch (dtype) {
    case DType::f32:
      return std::make_unique<KernelFor<float>>(context, op);
    case DType::bf16:
      return std::make_unique<KernelFor<__nv_bfloat16>>(context, op);
    case DType::f16:
      return std::make_unique<KernelFor<__half>>(context, op);
    default:
      throw BadInput("no CUDA kernel for " + std::string(name_of(dtype)));
  }
}

// Factories of kernels for the type of an input, and of the first output.
template <template <typename> class KernelFor, std::size_t kPosition = 0>
std::unique_ptr<Kernel> make_for_input(const Context& context, const OpView& op) {
  return make_for<KernelFor>(op.input(kPosition).dtype, context, op);
}
template <template <typename> class KernelFor>
std::unique_ptr<Kernel> make_for_output(const Context& context, const OpView& op) {
  return make_for<KernelFor>(op.output(0).dtype, context, op);
}

}  // namespace l2l::device::cuda
