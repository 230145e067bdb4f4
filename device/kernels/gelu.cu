#include "device/kernels/activations.cuh"
#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 2 elements of T per element.
template <bool kExact>
struct Gelu {
  __device__ float operator()(float x) const { return gelu<kExact>(x); }
};

}  // namespace

const Factory make_gelu = [](const Context& context, const OpView& op) {
  return (op.attributes.exact ? make_for_output<OneInput<Gelu<true>>::OfType>
                              : make_for_output<OneInput<Gelu<false>>::OfType>)(context, op);
};

}  // namespace l2l::device::cuda
