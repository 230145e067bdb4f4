// What is said of the host's kernels alone.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/fault_point.h"
#include "core/workers.h"
#include "l2l/errors.h"
#include "tests/conformance/ops/harness.h"

namespace l2l::test {
namespace {

using compiler::OpKind;

#ifdef L2L_FAULT_POINTS
TEST(Workers, AnOrderThatDependsOnThemIsNoticed) {
  const OpCase test_case = bias_gradient_case(DType::f32, 200, 160);
  const Tensors operands = make_operands(test_case);
  std::vector<std::byte> bytes[2];
  arm_fault_point("kernels.order_by_workers");
  for (const int threads : {1, 2}) {
    Memory memory(test_case, operands);
    Workers workers("ops", threads);
    run_kernel(test_case, memory, workers);
    bytes[threads - 1] = memory.output_bytes();
  }
  arm_fault_point("");
  EXPECT_FALSE(bytes[0] == bytes[1]);
}
#endif

TEST(Kernels, RefuseTokensOutsideTheVocabulary) {
  Workers workers("ops", 2);
  const OpCase readers_of_tokens[] = {embedding_case(DType::f32, 4, 4, 8, 5),
                                      embedding_backward_case(DType::f32, 4, 4, 8, 5),
                                      linear_cross_entropy_case(DType::f32, 4, 8, 5),
                                      linear_cross_entropy_backward_case(DType::f32, 4, 8, 5),
                                      embedding_rows_case(DType::f32, 4, 8, 5),
                                      softmax_statistics_case(DType::f32, 4, 8, 5),
                                      lookup_case(DType::f32, 4, 8, 5),
                                      row_cross_entropy_case(OpKind::row_cross_entropy, DType::f32, 4, 5),
                                      row_cross_entropy_case(OpKind::row_cross_entropy_backward, DType::f32, 4, 5)};
  for (const OpCase& test_case : readers_of_tokens) {
    Tensors operands = make_operands(test_case);
    std::size_t tokens = 0;
    while (test_case.graph.values[tokens].dtype != DType::i32) ++tokens;
    const bool chunk = test_case.parameters.first_token > 0;
    operands[tokens][1] = chunk ? kFirstToken + 5 + kTokensBehind : 5;
    Memory memory(test_case, operands);
    EXPECT_THROW(run_kernel(test_case, memory, workers), BadInput) << test_case.name;
  }
}

Tensor reversible_sum(Workers& workers, bool inverse, DType stream, const Tensor& x, const Tensor& b) {
  const auto size = static_cast<std::int64_t>(x.size());
  const OpCase test_case = stream_case(OpKind::reversible_add, DType::f32, stream, 1, size, inverse);
  Memory memory(test_case, {x, b, Tensor(x.size())});
  run_kernel(test_case, memory, workers);
  return memory.read()[2];
}

// Streams anywhere in the range, branches of any size that it holds.
TEST(Kernels, CouplingInFixedPointIsUndoneToTheBit) {
  Workers workers("ops", 2);
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> place(-1e9, 1e9), exponent(-30, 13);
  Tensor x(40000), b(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::floor(place(random));
    b[i] = std::copysign(std::exp2(exponent(random)), place(random));
  }
  EXPECT_EQ(reversible_sum(workers, true, DType::i32, reversible_sum(workers, false, DType::i32, x, b), b), x);
  // Negative control: in fp32 the same is not so.
  EXPECT_NE(reversible_sum(workers, true, DType::f32, reversible_sum(workers, false, DType::f32, x, b), b), x);
}

TEST(Kernels, WhatLeavesFixedPointIsNoNumberAndStaysSo) {
  Workers workers("ops", 1);
  const double infinite = std::numeric_limits<double>::infinity(), nan = std::nan(""), lost = -0x1p31;
  const Tensor sums =
      reversible_sum(workers, false, DType::i32, {2147483000, -2147483000, 0, 0, 0, 5, lost, 2147483000},
                     {1, -1, 32768, infinite, nan, -40000, 1, -1});
  EXPECT_EQ(sums, (Tensor{lost, lost, lost, lost, lost, lost, lost, 2147483000 - 65536}));
  EXPECT_EQ(reversible_sum(workers, true, DType::i32, sums, Tensor(8, 1))[0], lost);
  EXPECT_EQ(reversible_sum(workers, true, DType::i32, {7, -2147483000}, {nan, 1}), (Tensor{lost, lost}));
  const OpCase read = stream_case(OpKind::read_stream, DType::bf16, DType::i32, 1, 2);
  Memory memory(read, {{lost, -98304}, Tensor(2)});
  run_kernel(read, memory, workers);
  EXPECT_TRUE(std::isnan(memory.read()[1][0]));
  EXPECT_EQ(memory.read()[1][1], -1.5);
}

TEST(Kernels, RefuseDtypesTheyDoNotHave) {
  Workers workers("ops", 1);
  OpCase test_case = pointwise_case(OpKind::add, DType::f32, 3, 3);
  test_case.graph.values[1].dtype = DType::bf16;
  Memory memory(test_case, make_operands(test_case));
  EXPECT_THROW(run_kernel(test_case, memory, workers), BadInput);
}

}  // namespace
}  // namespace l2l::test
