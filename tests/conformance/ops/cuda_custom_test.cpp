// A program's own op on a GPU: its functions get what they need, and one that has none is refused.
#include <gtest/gtest.h>

#include "device/kernels/cuda_factories.h"
#include "tests/conformance/ops/cuda_support.h"
#include "tests/conformance/ops/sines.h"

namespace l2l::test {
namespace {

using compiler::OpKind;

CustomOp sines_on_gpu() {
  CustomOp op = sines();
  op.gpu_forward = sines_forward_on_gpu;
  op.gpu_backward = sines_backward_on_gpu;
  return op;
}

void check(const OpCase& test_case, const Tensors& operands, const Tensors& expected) {
  std::vector<std::byte> first;
  for (const int variant : variants()) {
    Memory memory(test_case, operands);
    run_kernel(test_case, memory, variant);
    EXPECT_EQ(compare(test_case, expected, memory.read()), "") << test_case.name << ", " << variant;
    if (first.empty()) first = memory.output_bytes();
    EXPECT_TRUE(first == memory.output_bytes()) << test_case.name << ", " << variant;
  }
}

TEST(CustomOpsOnGpu, GiveWhatTheirFunctionsGive) {
  constexpr std::int64_t kColumns = 37;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t rows : {1, 33, 700}) {
      const SinesExample example(dtype, rows, kColumns);
      check(custom_case(OpKind::custom, dtype, rows, kColumns, sines_on_gpu()), example.forward,
            example.forward_result);
      check(custom_case(OpKind::custom_backward, dtype, rows, kColumns, sines_on_gpu()), example.backward,
            example.backward_result);
    }
  }
}

TEST(CustomOpsOnGpu, GetAWorkspaceAndTheirPlace) {
  CustomOp op = sines_on_gpu();
  op.draws = true;
  op.gpu_workspace = [](const CustomOnGpu& call) {
    return static_cast<std::size_t>(call.rows * call.columns) * sizeof(float);
  };
  DrawPlace seen;
  std::uint32_t of_op = 0;
  op.gpu_forward = [&](const CustomForwardOnGpu& call) {
    const auto stream = static_cast<cudaStream_t>(call.stream);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(call.workspace) % 256, 0u);
    cudaMemsetAsync(call.workspace, 1, static_cast<std::size_t>(call.rows * call.columns) * sizeof(float), stream);
    cudaMemcpyAsync(&seen, call.place, sizeof seen, cudaMemcpyDeviceToHost, stream);
    of_op = call.op;
    sines_forward_on_gpu(call);
  };
  OpCase test_case = custom_case(OpKind::custom, DType::f32, 33, 8, op);
  test_case.graph.ops[0].attributes.rng_op = 5;
  test_case.parameters = {.seed = 11, .step = 7, .layer = 3, .microbatch = 2, .training = false};
  const SinesExample example(DType::f32, 33, 8);
  check(test_case, example.forward, example.forward_result);
  EXPECT_EQ(seen.seed, 11u);
  EXPECT_EQ(seen.step, 7u);
  EXPECT_EQ(seen.layer, 3u);
  EXPECT_EQ(seen.microbatch, 2u);
  EXPECT_FALSE(seen.training);
  EXPECT_EQ(of_op, 5u);
}

TEST(CustomOpsOnGpu, WhatHasNoFunctionsThereIsRefused) {
  const OpCase test_case = custom_case(OpKind::custom, DType::f32, 3, 8);
  try {
    device::cuda::make_kernel(cuda_context(), test_case.graph, 0);
    FAIL() << "a kernel was made";
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find("custom op \"sines\" has no functions for a GPU"), std::string::npos);
  }
}

}  // namespace
}  // namespace l2l::test
