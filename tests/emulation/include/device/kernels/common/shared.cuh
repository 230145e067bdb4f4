// Stands in for device/kernels/common/shared.cuh where kernels are emulated.
#pragma once

#include "tests/emulation/engine.h"

namespace l2l::device::cuda {

template <typename T>
T* dynamic_shared() {
  return static_cast<T*>(emulation::dynamic_shared_memory());
}

}  // namespace l2l::device::cuda
