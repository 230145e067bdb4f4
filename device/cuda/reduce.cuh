// Sums over the threads of a warp or a block. The order of additions depends on the number of threads alone.
#pragma once

#include <cuda_runtime.h>

namespace l2l::device::cuda {

// The same bits in every lane: a butterfly, and additions commute.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, lane);
  return value;
}

// Over groups of kThreads neighbouring threads of the block (32, or the whole block, or a part of whole warps), the
// same bits in every thread of the group. `shared`: a float per warp of the block; a second call may use the same ones
// after a barrier. All threads of the block must call it when kThreads > 32.
template <int kThreads>
__device__ inline float group_sum(float value, float* shared) {
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);
  value = warp_sum(value);
  if constexpr (kThreads > 32) {
    constexpr unsigned int kWarps = kThreads / 32;
    const unsigned int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) shared[warp] = value;
    __syncthreads();
    value = warp_sum(lane < kWarps ? shared[warp / kWarps * kWarps + lane] : 0.0f);
  }
  return value;
}

}  // namespace l2l::device::cuda
