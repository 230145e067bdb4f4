// What the CUDA backend offers to open.cpp; answered by cuda/ or by no_cuda.cpp, whichever is linked.
#pragma once

#include <memory>

#include "device/device.h"

namespace l2l::device {

// Whether this build has the backend and the machine a GPU for it.
bool cuda_available();

// Throws BadInput saying why when there is none.
std::unique_ptr<Device> open_cuda_device();

}  // namespace l2l::device
