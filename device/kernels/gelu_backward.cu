#include "device/kernels/activations.cuh"
#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 3 elements of T per element: dy and x in, dx out, which the sum of a bias's gradient reads from registers.
template <bool kExact>
struct GeluGradient {
  __device__ float operator()(float dy, float x) const { return __fmul_rn(dy, gelu_derivative<kExact>(x)); }

  template <typename T>
  using WithBias = ColumnSumsKernel<StoredSource<MapBody<GeluGradient, T, T, T>>>;
};

}  // namespace

const Factory make_gelu_backward = [](const Context& context, const OpView& op) {
  return (op.attributes.exact ? make_for_output<TwoInputs<GeluGradient<true>>::OfType>
                              : make_for_output<TwoInputs<GeluGradient<false>>::OfType>)(context, op);
};

const Factory make_gelu_backward_bias = [](const Context& context, const OpView& op) {
  return (op.attributes.exact ? make_for_output<GeluGradient<true>::WithBias>
                              : make_for_output<GeluGradient<false>::WithBias>)(context, op);
};

}  // namespace l2l::device::cuda
