// Page-locked host memory.
#pragma once

#include "device/cuda/device_state.h"

namespace l2l::device::cuda {

// Zeroed host memory near the device, on huge pages where the system has such. It is registered with the driver in
// parts of at most 64 GiB, or, beyond the setting pinned_memory, not at all: copies are then staged. Throws OutOfMemory
// naming `purpose`, and the limit where registering is refused.
std::unique_ptr<Buffer> allocate_pinned_memory(const std::shared_ptr<DeviceState>& state, Bytes size,
                                               std::string_view purpose);

}  // namespace l2l::device::cuda
