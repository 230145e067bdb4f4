// Memory of a CUDA device: its own, and page-locked host memory.
#pragma once

#include "device/cuda/device_state.h"

namespace l2l::device::cuda {

// One allocation of the driver. Throws OutOfMemory naming `purpose`, what is missing and who holds the rest.
std::unique_ptr<Buffer> allocate_device_memory(const std::shared_ptr<DeviceState>& state, Bytes size,
                                               std::string_view purpose);

// Zeroed host memory near the device, on huge pages where the system has them. It is registered with the driver in
// parts of at most 64 GiB; beyond the setting pinned_memory it is not registered, and copies are staged. Throws
// OutOfMemory naming `purpose`, and the limit where registering is refused.
std::unique_ptr<Buffer> allocate_pinned_memory(const std::shared_ptr<DeviceState>& state, Bytes size,
                                               std::string_view purpose);

}  // namespace l2l::device::cuda
