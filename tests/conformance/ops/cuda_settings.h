// For tests of kernels that choose their way by the device's settings.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "tests/conformance/ops/cuda_support.h"
#include "tests/conformance/ops/harness.h"

namespace l2l::test {

// Restores the settings.
class CudaSettings : public testing::Test {
 protected:
  ~CudaSettings() override { cuda_context() = before_; }

 private:
  device::cuda::Context before_ = cuda_context();
};

// The results of `test_case`; fails unless they are the reference's and their bits are the same in all variants.
inline Tensors run_checked(const OpCase& test_case) {
  const Tensors operands = make_operands(test_case);
  Tensors expected = operands;
  run_reference({test_case.graph, test_case.op(), test_case.parameters, expected});
  std::vector<std::byte> first;
  Tensors actual;
  for (const int variant : variants()) {
    Memory memory(test_case, operands);
    run_kernel(test_case, memory, variant);
    actual = memory.read();
    if (first.empty()) first = memory.output_bytes();
    EXPECT_TRUE(first == memory.output_bytes()) << test_case.name << ", variant " << variant;
  }
  EXPECT_EQ(compare(test_case, expected, actual), "") << test_case.name;
  return actual;
}

}  // namespace l2l::test
