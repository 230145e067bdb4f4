#include "device/kernels/cuda_factories.h"
#include "device/kernels/dimension_sums.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
using SumOverDims = DimensionSums<T, T, false>;

}  // namespace

const Factory make_sum = make_for_output<SumOverDims>;

}  // namespace l2l::device::cuda
