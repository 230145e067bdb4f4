#include "device/cuda_backend.h"
#include "l2l/errors.h"

namespace l2l::device {

bool cuda_available() { return false; }

std::unique_ptr<Device> open_cuda_device() {
  throw BadInput("device.kind = \"cuda\": this build has no CUDA backend; use \"host\" or \"auto\"");
}

}  // namespace l2l::device
