// Device memory.
#pragma once

#include "device/cuda/device_state.h"

namespace l2l::device::cuda {

// One allocation of the driver. Throws OutOfMemory naming `purpose`, what is missing and who holds the rest.
std::unique_ptr<Buffer> allocate_device_memory(const std::shared_ptr<DeviceState>& state, Bytes size,
                                               std::string_view purpose);

}  // namespace l2l::device::cuda
