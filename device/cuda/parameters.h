#pragma once

#include <cuda_runtime_api.h>

#include "device/device.h"

namespace l2l::device::cuda {

// Enqueues on `stream` that `parameters` are written to `destination` in device memory. They travel with the launch, so
// nothing on the host must outlive the call. Throws DeviceError.
void write_parameters(LaunchParameters* destination, const LaunchParameters& parameters, cudaStream_t stream);

}  // namespace l2l::device::cuda
