// Kernels that compute each element on its own.
#pragma once

#include <algorithm>

#include "device/kernels/common/cuda_kernel.h"
#include "device/kernels/common/floats.cuh"
#include "device/kernels/common/launch.cuh"

namespace l2l::device::cuda {

inline constexpr int kElementwiseThreads = 256;

// Calls body.at<Count>(first) for groups of Count elements (16-byte accesses) and body.at<1>(element) for the rest.
// Each thread first calls body.prepare() on its own copy.
template <int Count, typename Body>
__global__ void __launch_bounds__(kElementwiseThreads) elementwise(std::int64_t elements, Body body) {
  body.prepare();
  const std::int64_t groups = elements / Count, tail = elements - groups * Count;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kElementwiseThreads + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kElementwiseThreads;
  for (std::int64_t group = thread; group < groups; group += threads) body.template at<Count>(group * Count);
  if (thread < tail) body.template at<1>(groups * Count + thread);
}

// Enough blocks to fill the device twice, so that uneven block ends are hidden.
template <int Count, typename Body>
void launch_elementwise(const char* name, const Context& context, std::int64_t elements, const Body& body,
                        cudaStream_t stream) {
  const unsigned int wanted = ceil_div(std::max<std::int64_t>(elements / Count, Count), kElementwiseThreads);
  const unsigned int most = 16 * static_cast<unsigned int>(std::max(1, context.multiprocessors));
  launch(name, elementwise<Count, Body>, {std::min(wanted, most), kElementwiseThreads}, stream, elements, body);
}

// For bodies that need no preparation.
struct Unprepared {
  __device__ void prepare() {}
};

}  // namespace l2l::device::cuda
