// Launches kernels. Only .cu files include this.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "device/kernels/common/check.h"

namespace l2l::device::cuda {

struct LaunchShape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;  // dynamic
};

// Enqueues `kernel` on `stream`; arguments are copied before it returns. (kernel<<<...>>> would return no
// error.)
template <typename... Parameters, typename... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape, cudaStream_t stream,
            Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name);
}

// Lets `kernel` take more than 48 KiB of dynamic shared memory. Once, when a Kernel is made.
template <typename... Parameters>
void allow_shared_memory(void (*kernel)(Parameters...), std::size_t bytes) {
  check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)");
}

constexpr unsigned int ceil_div(std::int64_t count, std::int64_t size) {
  return static_cast<unsigned int>((count + size - 1) / size);
}

}  // namespace l2l::device::cuda
