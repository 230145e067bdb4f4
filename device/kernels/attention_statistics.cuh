// What attention's backward needs per query, prepared once: the logsumexp in the base that the kernels compute in, and
// D = dy . y.
#pragma once

#include "device/kernels/attention_problem.h"
#include "device/kernels/common/convert.cuh"

namespace l2l::device::cuda {

struct alignas(8) RowStatistics {
  float logsumexp_log2 = 0;  // of the scaled scores, times log2(e)
  float product = 0;         // dy . y
};

inline constexpr int kStatisticsThreads = 256;
inline constexpr int kStatisticsLanes = 8;  // per query of one head

// statistics: [tasks][sequence]. Grid: rows x heads, kStatisticsThreads / kStatisticsLanes of them per block.
template <typename T>
__global__ __launch_bounds__(kStatisticsThreads) void attention_statistics(const AttentionProblem problem, const T* dy,
                                                                           const T* y, const float* logsumexp,
                                                                           RowStatistics* statistics) {
  const std::int64_t item =
      static_cast<std::int64_t>(blockIdx.x) * (kStatisticsThreads / kStatisticsLanes) + threadIdx.x / kStatisticsLanes;
  const int lane = threadIdx.x % kStatisticsLanes;
  const bool inside = item < problem.rows() * problem.heads;
  const std::int64_t offset = item * problem.head_dim;
  float sum = 0;
  if (inside && problem.vector) {
    for (int d = lane * kPack<T>; d < problem.head_dim; d += kStatisticsLanes * kPack<T>) {
      const Pack<T> left = load_pack(dy + offset + d), right = load_pack(y + offset + d);
#pragma unroll
      for (int k = 0; k < kPack<T>; ++k) sum = fmaf(widen(left.elements[k]), widen(right.elements[k]), sum);
    }
  } else if (inside) {
    for (int d = lane; d < problem.head_dim; d += kStatisticsLanes) {
      sum = fmaf(widen(dy[offset + d]), widen(y[offset + d]), sum);
    }
  }
#pragma unroll
  for (int mask = kStatisticsLanes / 2; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffff, sum, mask);
  if (!inside || lane != 0) return;
  const std::int64_t row = item / problem.heads, head = item % problem.heads;
  const std::int64_t task = row / problem.sequence * problem.heads + head;
  statistics[task * problem.sequence + row % problem.sequence] = {logsumexp[item] * 1.4426950408889634f, sum};
}

// transposed: [tasks][sequence]. Grid: rows x heads, one of them per thread.
static __global__ __launch_bounds__(kStatisticsThreads) void head_major_logsumexp(const AttentionProblem problem,
                                                                                  const float* logsumexp,
                                                                                  float* transposed) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kStatisticsThreads + threadIdx.x;
  if (item >= problem.rows() * problem.heads) return;
  const std::int64_t task = item / problem.sequence, i = item % problem.sequence;
  const std::int64_t row = task / problem.heads * problem.sequence + i;
  transposed[item] = logsumexp[row * problem.heads + task % problem.heads];
}

}  // namespace l2l::device::cuda
