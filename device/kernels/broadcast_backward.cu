#include "device/kernels/cuda_factories.h"
#include "device/kernels/dimension_sums.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
using BroadcastBackward = DimensionSums<T, float, true>;

}  // namespace

const Factory make_broadcast_backward = make_for_input<BroadcastBackward>;

}  // namespace l2l::device::cuda
