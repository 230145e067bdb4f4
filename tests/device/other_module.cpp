// A module whose seam is another one.
#include "device/cuda/module.h"

extern "C" const l2l::device::cuda::Module* l2l_cuda_module() {
  static const l2l::device::cuda::Module module{"l2l 0, another compiler", nullptr};
  return &module;
}
