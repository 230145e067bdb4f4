// Kernels that choose their way by the device's settings, on the ways that the table's small shapes do not take.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/conformance/ops/cuda_settings.h"
#include "tests/conformance/ops/speed.h"

namespace l2l::test {
namespace {

std::array<std::int64_t, 3> sizes_of_product(const OpCase& test_case) {
  const auto shape_of = [&](std::size_t value) { return test_case.graph.values[value].shape; };
  const compiler::Op& op = test_case.op();
  const Shape y = shape_of(static_cast<std::size_t>(op.outputs[0])),
              a = shape_of(static_cast<std::size_t>(op.inputs[0]));
  return {y[0], y[1], a[op.attributes.transpose_a ? 0 : 1]};
}

void run_losses(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t vocabulary) {
  run_checked(linear_cross_entropy_case(dtype, rows, hidden, vocabulary));
  run_checked(linear_cross_entropy_backward_case(dtype, rows, hidden, vocabulary));
  run_checked(softmax_statistics_case(dtype, rows, hidden, vocabulary));
  run_checked(chunk_cross_entropy_backward_case(dtype, rows, hidden, vocabulary));
}

// With room for so few logits, the shapes take: one panel; chunks of whole rows; parts of the vocabulary in one chunk;
// and chunks of rows by parts.
TEST_F(CudaSettings, LossesInPanelsOfEveryKind) {
  cuda_context().logits = Bytes{64} << 10;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    run_losses(dtype, 33, 24, 100);
    run_losses(dtype, 1500, 8, 17);
    run_losses(dtype, 70, 24, 700);
  }
  run_losses(DType::bf16, 4200, 8, 70);
}

// What the table has of small products: types, transposes, biases, what is added to, shapes that are no whole tiles.
TEST_F(CudaSettings, ProductsOfOurOwnAreTheReferences) {
  constexpr std::int64_t kLargest = 20'000;  // multiplications
  cuda_context().cublas_lt = nullptr;
  int products = 0;
  for (const OpCase& test_case : conformance_cases()) {
    if (test_case.op().kind != compiler::OpKind::matmul) continue;
    const auto [m, n, k] = sizes_of_product(test_case);
    if (m * n * k > kLargest) continue;
    run_checked(test_case);
    ++products;
  }
  EXPECT_GT(products, 30);
}

// Rows do not depend on how many of them are in a panel, and a loss hardly on its parts.
TEST_F(CudaSettings, LossesDoNotDependOnPanels) {
  const OpCase test_case = linear_cross_entropy_backward_case(DType::f32, 70, 24, 700);
  const Tensors at_once = run_checked(test_case);
  cuda_context().logits = Bytes{64} << 10;
  const Tensors in_parts = run_checked(test_case);
  EXPECT_NE(at_once, in_parts) << "the settings had no effect";
  EXPECT_EQ(compare(test_case, at_once, in_parts), "");
}

// What the host refuses, a GPU cannot: the loss becomes NaN, on which a run stops.
TEST_F(CudaSettings, TokensOutsideTheVocabularyMakeTheLossNaN) {
  for (const OpCase& test_case :
       {linear_cross_entropy_case(DType::f32, 4, 8, 5), linear_cross_entropy_backward_case(DType::f32, 4, 8, 5)}) {
    Tensors operands = make_operands(test_case);
    operands[2][1] = 5;
    Memory memory(test_case, operands);
    run_kernel(test_case, memory, variants().front());
    EXPECT_TRUE(std::isnan(memory.read()[3][0])) << test_case.name;
  }
  const OpCase chunk = softmax_statistics_case(DType::f32, 4, 8, 5);
  Tensors operands = make_operands(chunk);
  operands[2][1] = kFirstToken + 5 + kTokensBehind;
  Memory memory(chunk, operands);
  run_kernel(chunk, memory, variants().front());
  const Tensor statistics = memory.read()[3];
  EXPECT_TRUE(std::isnan(statistics[5]));
  EXPECT_FALSE(std::isnan(statistics[2]));
}

double relative_error(const Tensor& expected, const Tensor& actual) {
  double squares = 0, difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    squares += expected[i] * expected[i];
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
  }
  return std::sqrt(difference / squares);
}

TEST_F(CudaSettings, Tf32OnlyWhenAskedFor) {
  const OpCase test_case = matmul_case(DType::f32, DType::f32, {64, 128, 256});
  const Tensor exact = run_checked(test_case)[2];  // within 1e-5
  cuda_context().tf32 = true;
  Memory memory(test_case, make_operands(test_case));
  run_kernel(test_case, memory, variants().front());
  const double error = relative_error(exact, memory.read()[2]);
  EXPECT_GT(error, 1e-5);
  EXPECT_LT(error, 2e-3);
}

// The figures themselves say something on a GPU alone.
TEST(CudaSpeed, CountsRunsAndOperands) {
  const OpCase test_case = matmul_case(DType::bf16, DType::bf16, {8, 16, 24});
  const CudaSpeed speed = measure_cuda(test_case, 0.001);
  EXPECT_GT(speed.seconds, 0);
  EXPECT_NEAR(speed.teraflops * speed.seconds, 2.0 * 8 * 16 * 24 / 1e12, 1e-20);
  EXPECT_NEAR(speed.terabytes * speed.seconds, 2.0 * (8 * 24 + 24 * 16 + 8 * 16) / 1e12, 1e-20);
  EXPECT_EQ(run_cuda_speed({test_case, cross_entropy_case(33)}, {}, 16, 0.001), 2);
  EXPECT_EQ(run_cuda_speed({test_case, cross_entropy_case(33)}, std::array{"matmul"}, 16, 0.001), 1);
}

}  // namespace
}  // namespace l2l::test
