// Opens the CUDA backend: a module loaded at run time, so that one binary runs with and without CUDA.
#pragma once

#include <memory>

#include "device/device.h"
#include "device/open.h"

namespace l2l::device {

// Opens the module: the file that the environment's L2L_CUDA_MODULE names, else libl2l_cuda.so beside this library or
// executable, in the build tree around it, or where it was installed. It stays open while the process lives. Throws
// BadInput in one sentence: there is no module, it does not open, no driver, no such device.
std::unique_ptr<Device> open_cuda_device(const DeviceSettings& settings);

}  // namespace l2l::device
