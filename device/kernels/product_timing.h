// How long kernels of a product take on an idle device.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "device/kernels/common/handle.h"

namespace l2l::device::cuda {

// Zeroed device memory of its own, in pieces at 256-byte aligned addresses.
class TimingMemory {
 public:
  // Throws OutOfMemory where the device has not as much left.
  TimingMemory(std::span<const Bytes> pieces, cudaStream_t stream);
  std::byte* piece(std::size_t index) const { return pieces_[index]; }

 private:
  DeviceMemory memory_;
  std::vector<std::byte*> pieces_;
};

// Milliseconds that what `enqueue` puts into `stream` takes: the least of several runs, back to back, after one that
// loads code. Waits for them. Throws DeviceError.
float least_milliseconds(const std::function<void()>& enqueue, cudaStream_t stream);

}  // namespace l2l::device::cuda
