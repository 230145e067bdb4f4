// Kernels against the float64 references, their independence from the number of workers, and the proof that the
// comparison notices small mistakes.
#include <gtest/gtest.h>

#include <cmath>

#include "core/fault_point.h"
#include "core/workers.h"
#include "l2l/errors.h"
#include "tests/conformance/ops/harness.h"

namespace l2l::test {
namespace {

const std::vector<OpCase>& cases() {
  static const std::vector<OpCase> table = conformance_cases();
  return table;
}

class OpConformance : public testing::TestWithParam<std::size_t> {
 protected:
  const OpCase& test_case() const { return cases()[GetParam()]; }
};

Tensors expected_results(const OpCase& test_case, const Tensors& operands) {
  Tensors expected = operands;
  run_reference({test_case.graph, test_case.op(), test_case.parameters, expected});
  return expected;
}

TEST_P(OpConformance, MatchesFloat64Reference) {
  const Tensors operands = make_operands(test_case());
  Memory memory(test_case(), operands);
  Workers workers("ops", 2);
  run_kernel(test_case(), memory, workers);
  EXPECT_EQ(compare(test_case(), expected_results(test_case(), operands), memory.read()), "");
}

TEST_P(OpConformance, BitsDoNotDependOnWorkers) {
  const Tensors operands = make_operands(test_case());
  std::vector<std::byte> first;
  for (const int threads : {1, 2, 3, 4}) {
    Memory memory(test_case(), operands);
    Workers workers("ops", threads);
    run_kernel(test_case(), memory, workers);
    if (threads == 1) first = memory.output_bytes();
    EXPECT_TRUE(first == memory.output_bytes()) << threads << " workers";
  }
}

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

INSTANTIATE_TEST_SUITE_P(Table, OpConformance, testing::Range<std::size_t>(0, cases().size()),
                         [](const auto& info) { return cases()[info.param].name; });

// Mistakes a kernel could make; each must be noticed in every case where it changes the result.
void disturb_one_element(Tensor& output) {
  double squares = 0;
  for (const double value : output) squares += value * value;
  double& element = output[output.size() / 2];
  const double typical = std::sqrt(squares / static_cast<double>(output.size()));
  element += std::copysign(0.02 * std::max(std::abs(element), typical), element);
}

void lose_last_row(Tensor& output, const Shape& shape) {
  const std::int64_t row = shape.rank() > 1 ? shape.elements() / shape[0] : 1;
  std::fill(output.end() - static_cast<std::ptrdiff_t>(row), output.end(), 0.0);
}

void scale_slightly(Tensor& output) {
  for (double& value : output) value *= 1.01;
}

TEST(Comparator, NoticesSeededMistakesInEveryOutput) {
  for (const OpCase& test_case : cases()) {
    const Tensors expected = expected_results(test_case, make_operands(test_case));
    ASSERT_EQ(compare(test_case, expected, expected), "") << test_case.name;
    for (std::size_t i = test_case.op().inputs.size(); i < expected.size(); ++i) {
      const std::size_t output = i - test_case.op().inputs.size();
      Tensors disturbed = expected, shortened = expected, scaled = expected;
      disturb_one_element(disturbed[i]);
      lose_last_row(shortened[i], test_case.graph.value(test_case.op().outputs[output]).shape);
      scale_slightly(scaled[i]);
      for (const Tensors& mistake : {disturbed, shortened, scaled}) {
        if (mistake == expected) continue;
        EXPECT_NE(compare(test_case, expected, mistake), "") << test_case.name << ", output " << output;
      }
    }
  }
}

TEST(Kernels, RefuseTokensOutsideTheVocabulary) {
  Workers workers("ops", 2);
  const OpCase readers_of_tokens[] = {
      embedding_case(DType::f32, 4, 4, 8, 5),         embedding_backward_case(DType::f32, 4, 4, 8, 5),
      linear_cross_entropy_case(DType::f32, 4, 8, 5), linear_cross_entropy_backward_case(DType::f32, 4, 8, 5),
      embedding_rows_case(DType::f32, 4, 8, 5),       softmax_statistics_case(DType::f32, 4, 8, 5)};
  for (const OpCase& test_case : readers_of_tokens) {
    Tensors operands = make_operands(test_case);
    const bool embedding = test_case.graph.values[0].dtype == DType::i32;
    const bool chunk = test_case.parameters.first_token > 0;
    operands[embedding ? 0 : 2][1] = chunk ? kFirstToken + 5 + kTokensBehind : 5;
    Memory memory(test_case, operands);
    EXPECT_THROW(run_kernel(test_case, memory, workers), BadInput) << test_case.name;
  }
}

TEST(Kernels, RefuseDtypesTheyDoNotHave) {
  Workers workers("ops", 1);
  OpCase test_case = pointwise_case(device::graph::OpKind::add, DType::f32, 3, 3);
  test_case.graph.values[1].dtype = DType::bf16;
  Memory memory(test_case, make_operands(test_case));
  EXPECT_THROW(run_kernel(test_case, memory, workers), BadInput);
}

}  // namespace
}  // namespace l2l::test
