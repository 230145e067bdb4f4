// Elements of streams on the device: fp32, or fixed point; bit for bit as device/kernels/streams.h.
#pragma once

#include "core/fixed_point.h"
#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/operands.h"

namespace l2l::device::cuda {

using Fixed = std::int32_t;

__device__ inline float widen(Fixed value) {
  return value == kLostFixed ? __int_as_float(0x7fc00000) : __fmul_rn(__int2float_rn(value), 1 / kFixedOne);
}

__device__ inline Fixed to_fixed_units(float value) {
  const float units = __fmul_rn(value, kFixedOne);
  return fabsf(units) < 0x1p31f ? __float2int_rn(units) : kLostFixed;
}

__device__ inline Fixed add_fixed_units(Fixed a, Fixed b) {
  const auto sum = static_cast<Fixed>(static_cast<unsigned int>(a) + static_cast<unsigned int>(b));
  const bool overflow = ((a ^ sum) & (b ^ sum)) < 0;
  return overflow || a == kLostFixed || b == kLostFixed ? kLostFixed : sum;
}

// Rounds to S, a stream or a compute type.
template <typename S>
__device__ inline S narrow_stream(float value) {
  if constexpr (std::is_same_v<S, Fixed>) {
    return to_fixed_units(value);
  } else {
    return narrow<S>(value);
  }
}

__device__ inline float reversible_sum(float x, float b, bool inverse) {
  return inverse ? __fsub_rn(x, b) : __fadd_rn(x, b);
}
__device__ inline Fixed reversible_sum(Fixed x, float b, bool inverse) {
  const Fixed units = to_fixed_units(b);
  return add_fixed_units(x, inverse ? static_cast<Fixed>(0u - static_cast<unsigned int>(units)) : units);
}

// Body<Stream, T>: an ElementwiseBody of a stream and a compute type.
template <template <typename, typename> class Body>
struct StreamKernelOf {
  template <typename T>
  using Floating = ElementwiseKernel<Body<float, T>>;
  template <typename T>
  using InFixedPoint = ElementwiseKernel<Body<Fixed, T>>;
};

template <template <typename, typename> class Body>
std::unique_ptr<Kernel> make_for_stream(const Context& context, const compiler::Graph& graph, const compiler::Op& op,
                                        DType stream, DType compute) {
  using Of = StreamKernelOf<Body>;
  if (stream == DType::i32) return make_for<Of::template InFixedPoint, Kernel>(compute, context, graph, op);
  if (stream == DType::f32) return make_for<Of::template Floating, Kernel>(compute, context, graph, op);
  throw BadInput("no CUDA kernel for a stream of " + std::string(name_of(stream)));
}

}  // namespace l2l::device::cuda
