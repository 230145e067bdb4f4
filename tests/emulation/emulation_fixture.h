// For tests of emulated kernels: each begins without an error and in ascending order.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/emulation/runtime.h"

namespace l2l::test {

class EmulationFixture : public testing::Test {
 protected:
  void TearDown() override {
    emulation::clear_error();
    emulation::set_order(0);
  }
  // Of the kernel that ran last.
  static std::string fault() {
    const cudaError_t status = cudaStreamSynchronize(nullptr);
    return status == cudaSuccess ? "" : cudaGetErrorString(status);
  }
};

}  // namespace l2l::test
