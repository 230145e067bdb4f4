// Dynamic shared memory. The emulation of tests/emulation has its own file of this name.
#pragma once

#include <cuda_runtime.h>

namespace l2l::device::cuda {

// The block's dynamic shared memory (LaunchShape::shared_bytes of it), 16-byte aligned, the same for every T: parts are
// laid out by the caller. Contents are undefined at first.
template <typename T>
__device__ inline T* dynamic_shared() {
  extern __shared__ uint4 l2l_dynamic_shared_memory[];
  return reinterpret_cast<T*>(l2l_dynamic_shared_memory);
}

}  // namespace l2l::device::cuda
