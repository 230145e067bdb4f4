// Sums of streams on the device: fp32, or fixed point; bit for bit as device/kernels/streams.h.
#pragma once

#include "device/kernels/common/elementwise.cuh"

namespace l2l::device::cuda {

__device__ inline Fixed add_fixed_units(Fixed a, Fixed b) {
  const auto sum = static_cast<Fixed>(static_cast<unsigned int>(a) + static_cast<unsigned int>(b));
  const bool overflow = ((a ^ sum) & (b ^ sum)) < 0;
  return overflow || a == kLostFixed || b == kLostFixed ? kLostFixed : sum;
}

__device__ inline float reversible_sum(float x, float b, bool inverse) {
  return inverse ? __fsub_rn(x, b) : __fadd_rn(x, b);
}
__device__ inline Fixed reversible_sum(Fixed x, float b, bool inverse) {
  const Fixed units = to_fixed_units(b);
  return add_fixed_units(x, inverse ? static_cast<Fixed>(0u - static_cast<unsigned int>(units)) : units);
}

template <template <typename, typename> class KernelFor>
struct StreamKernel {
  template <typename T>
  using Floating = KernelFor<float, T>;
  template <typename T>
  using InFixedPoint = KernelFor<Fixed, T>;
};

// The kernel class for the types of a stream and of a value of the compute type, which are operands of the op.
template <template <typename, typename> class KernelFor, std::size_t kStream, std::size_t kCompute>
std::unique_ptr<Kernel> make_for_stream(const Context& context, const OpView& op) {
  const DType stream = op.operand(kStream).dtype, compute = op.operand(kCompute).dtype;
  if (stream == DType::i32) return make_for<StreamKernel<KernelFor>::template InFixedPoint>(compute, context, op);
  if (stream == DType::f32) return make_for<StreamKernel<KernelFor>::template Floating>(compute, context, op);
  throw BadInput("no CUDA kernel for a stream of " + std::string(name_of(stream)));
}

}  // namespace l2l::device::cuda
