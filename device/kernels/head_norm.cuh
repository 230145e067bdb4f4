// What both passes of head_norm share on the device: a warp for each head of each row; heads of values are copied.
#pragma once

#include "device/kernels/common/cuda_kernel.h"
#include "device/kernels/common/floats.cuh"
#include "device/kernels/common/launch.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/common/reduce.cuh"

namespace l2l::device::cuda {

inline constexpr int kHeadThreads = 256;

// Copied into kernels. A row of qkv is [q | k | v].
struct HeadNormShape {
  std::int64_t rows, width;
  int heads, normed, all, size;  // of queries; of queries and keys; with values; elements of each
  float epsilon, offset;         // the gain is offset + weight

  HeadNormShape(const compiler::Value& qkv, const compiler::Attributes& attributes)
      : rows(qkv.shape[0]),
        width(qkv.shape[1]),
        heads(attributes.heads),
        normed(heads + compiler::kv_heads(attributes)),
        all(normed + compiler::kv_heads(attributes)),
        size(static_cast<int>(width / all)),
        epsilon(attributes.epsilon),
        offset(attributes.unit_offset ? 1.0f : 0.0f) {}

  LaunchShape launch() const { return {ceil_div(rows * all, kHeadThreads / 32), kHeadThreads}; }
  // The head of this warp, counted over all rows; it may lie behind the last one.
  __device__ std::int64_t item() const {
    return static_cast<std::int64_t>(blockIdx.x) * (kHeadThreads / 32) + threadIdx.x / 32;
  }
};

}  // namespace l2l::device::cuda
