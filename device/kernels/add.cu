#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 3 elements of T per element: two in, one out.
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

}  // namespace

const Factory make_add = make_for_output<TwoInputs<Sum>::OfType>;

}  // namespace l2l::device::cuda
