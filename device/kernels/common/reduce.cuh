// Sums over the threads of a warp or a block. The order of additions depends on the number of threads alone.
#pragma once

#include "device/kernels/common/floats.cuh"

namespace l2l::device::cuda {

// Every lane gets the same bits: it is a butterfly, and additions commute.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, lane);
  return value;
}

// Each of Count sums over groups of kThreads neighbouring threads of the block (whole warps), the same bits in every
// thread of the group. `shared`: an element per warp of the block; another call may use the same ones after a barrier.
// One barrier, when kThreads > 32: all threads of the block must call it then.
template <int kThreads, int Count>
__device__ inline Floats<Count> group_sums(Floats<Count> values, Floats<Count>* shared) {
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);
#pragma unroll
  for (int i = 0; i < Count; ++i) values[i] = warp_sum(values[i]);
  if constexpr (kThreads > 32) {
    constexpr unsigned int kWarps = kThreads / 32;
    const unsigned int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) shared[warp] = values;
    __syncthreads();
    values = lane < kWarps ? shared[warp / kWarps * kWarps + lane] : Floats<Count>{};
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] = warp_sum(values[i]);
  }
  return values;
}

template <int kThreads>
__device__ inline float group_sum(float value, Floats<1>* shared) {
  return group_sums<kThreads>(Floats<1>{{value}}, shared)[0];
}

}  // namespace l2l::device::cuda
