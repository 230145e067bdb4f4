#include "device/kernels/activations.cuh"
#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 3 elements of T per element.
struct SiluGradient {
  __device__ float operator()(float dy, float x) const { return __fmul_rn(dy, gate_derivative(Gate::silu, x).slope); }
};

}  // namespace

const Factory make_silu_backward = make_for_output<TwoInputs<SiluGradient>::OfType>;

}  // namespace l2l::device::cuda
