// A module of the same compiler with another interface hash.
#include "device/cuda_module.h"

extern "C" __attribute__((visibility("default"))) const l2l::device::cuda::Module* l2l_cuda_module() {
  static const l2l::device::cuda::Module module{"l2l 2, " __VERSION__ ", abi 0123456789abcdef", nullptr};
  return &module;
}
