// What both passes of head_norm share on the device: a warp for each head of each row.
#pragma once

#include "device/kernels/common/cuda_kernel.h"
#include "device/kernels/common/floats.cuh"
#include "device/kernels/common/head_norm.h"
#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/common/reduce.cuh"

namespace l2l::device::cuda {

using kernels::HeadNormShape;

inline constexpr int kHeadThreads = 256;

inline LaunchShape warps_of_heads(const HeadNormShape& shape) {
  return {ceil_div(shape.rows * shape.all, kHeadThreads / 32), kHeadThreads};
}

// The head of this warp.
struct HeadPlace {
  std::int64_t row, first;  // first: element of qkv
  int head, lane;
};

// The row may lie behind the last one, for all lanes of the warp.
__device__ inline HeadPlace place_of_warp(const HeadNormShape& shape) {
  const std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * (kHeadThreads / 32) + threadIdx.x / 32;
  return {item / shape.all, item * shape.size, static_cast<int>(item % shape.all), static_cast<int>(threadIdx.x % 32)};
}

}  // namespace l2l::device::cuda
