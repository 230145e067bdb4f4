// Kernels that give each row of a matrix to a group of threads, which read it once for each of their steps: from
// memory, then from the caches.
#pragma once

#include <cmath>
#include <string>
#include <type_traits>

#include "device/kernels/common/floats.cuh"
#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/reduce.cuh"
#include "device/kernels/common/rows.cuh"

namespace l2l::device::cuda {

inline constexpr int kRowGroupBlock = 256;

// kThreads_ threads, a warp or the block, and a row of `columns` elements in whole groups of kCount_.
template <int kThreads_, int kCount_>
class RowGroup {
 public:
  static constexpr int kThreads = kThreads_, kCount = kCount_;
  using Values = Floats<kCount>;
  using Shared = Floats<1>[2][kRowGroupBlock / 32];

  __device__ RowGroup(std::int64_t columns, Shared& shared)
      : columns_(columns), shared_(shared), thread_(static_cast<int>(threadIdx.x) % kThreads) {}

  __device__ bool is_first() const { return thread_ == 0; }

  // Calls visit(column) with the first column of each of this thread's groups.
  template <typename Visit>
  __device__ void each(const Visit& visit) const {
    for (std::int64_t column = thread_ * kCount; column < columns_; column += kThreads * kCount) visit(column);
  }

  // Over all threads of the group, which all call it and all get the same bits.
  __device__ float sum(float value) { return group_sum<kThreads>(value, shared_[turn_ ^= 1]); }
  __device__ float max(float value) {
    Floats<1>* const warps = shared_[turn_ ^= 1];
    value = warp_max(value);
    if constexpr (kThreads > 32) {
      static_assert(kThreads == kRowGroupBlock);
      if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32][0] = value;
      __syncthreads();
      value = warp_max(warps[threadIdx.x % (kThreads / 32)][0]);
    }
    return value;
  }

 private:
  __device__ static float warp_max(float value) {
#pragma unroll
    for (int lane = 16; lane > 0; lane /= 2) value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, lane));
    return value;
  }

  std::int64_t columns_;
  Shared& shared_;  // in turns: a turn has one barrier
  int thread_, turn_ = 0;
};

// Of a row of x: its largest element, and the sum of e^(element - largest).
struct Exponentials {
  float largest, sum;
};
template <typename Group, typename T>
__device__ Exponentials exponentials_of(const T* row, Group& group) {
  using Values = typename Group::Values;
  float largest = -INFINITY, sum = 0;
  group.each([&](std::int64_t column) {
    const Values values = load_floats<Group::kCount>(row + column);
#pragma unroll
    for (int i = 0; i < Group::kCount; ++i) largest = fmaxf(largest, values[i]);
  });
  largest = group.max(largest);
  group.each([&](std::int64_t column) {
    const Values values = load_floats<Group::kCount>(row + column);
#pragma unroll
    for (int i = 0; i < Group::kCount; ++i) sum += expf(values[i] - largest);
  });
  return {largest, group.sum(sum)};
}

template <int kThreads, int Count, typename Body>
__global__ void __launch_bounds__(kRowGroupBlock) row_groups(Body body) {
  __shared__ Floats<1> shared[2][kRowGroupBlock / 32];
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (kRowGroupBlock / kThreads) + threadIdx.x / kThreads;
  if (row >= body.rows) return;
  RowGroup<kThreads, Count> group(body.columns, shared);
  body.at(row, group);
}

// Base of the bodies that RowGroupKernel runs, for rows like those of `matrix`. They also have Element, the type whose
// 16 bytes make a group, bind() as in elementwise.cuh, and at(row, group).
struct RowGroupBody {
  std::int64_t rows, columns;

  explicit RowGroupBody(const compiler::Value& matrix) : rows(matrix.shape[0]), columns(matrix.shape[1]) {}
};

// The kernel of an op that computes each row on its own. Body is made from the op when the kernel is.
template <typename Body>
class RowGroupKernel final : public Kernel {
 public:
  RowGroupKernel(const Context&, const OpView& op) : name_(compiler::name_of(op.kind)), body_(op) {}

  void enqueue(Operands operands, std::byte*, const LaunchParameters* parameters, cudaStream_t stream) const override {
    Body body = body_;
    body.bind(operands, parameters);
    if (rows_are_packed<T>(body.columns)) {
      enqueue_rows<kPack<T>>(body, stream);
    } else {
      enqueue_rows<1>(body, stream);
    }
  }

 private:
  using T = typename Body::Element;

  template <int Count>
  void enqueue_rows(const Body& body, cudaStream_t stream) const {
    constexpr int kGroupsOfWarp = 8;  // of one thread, in the longest row of a warp
    if (body.columns <= 32 * kGroupsOfWarp * Count) {
      launch(name_.c_str(), row_groups<32, Count, Body>, {ceil_div(body.rows, kRowGroupBlock / 32), kRowGroupBlock},
             stream, body);
    } else {
      launch(name_.c_str(), row_groups<kRowGroupBlock, Count, Body>, {ceil_div(body.rows, 1), kRowGroupBlock}, stream,
             body);
    }
  }

  std::string name_;
  Body body_;  // without addresses
};

}  // namespace l2l::device::cuda
