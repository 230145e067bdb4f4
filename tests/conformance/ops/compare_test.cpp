// Kernels against the float64 references, the sameness of their bits, and the proof that the comparison notices small
// mistakes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/conformance/ops/harness.h"

namespace l2l::test {
namespace {

using compiler::OpKind;

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
  run_kernel(test_case(), memory, variants().back());
  EXPECT_EQ(compare(test_case(), expected_results(test_case(), operands), memory.read()), "");
}

TEST_P(OpConformance, BitsAreTheSameInAllVariants) {
  const Tensors operands = make_operands(test_case());
  std::vector<std::byte> first;
  for (const int variant : variants()) {
    Memory memory(test_case(), operands);
    run_kernel(test_case(), memory, variant);
    if (first.empty()) first = memory.output_bytes();
    ASSERT_TRUE(first == memory.output_bytes()) << "variant " << variant;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, OpConformance, testing::Range<std::size_t>(0, cases().size()),
                         [](const auto& info) { return cases()[info.param].name; });

// Mistakes a kernel could make; each must be noticed in every case where it changes the result.
double root_mean_square(const double* values, std::size_t count) {
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) squares += values[i] * values[i];
  return std::sqrt(squares / static_cast<double>(count));
}

// `row`: elements per row where rows count for themselves, else 0.
void disturb_one_element(Tensor& output, std::size_t row) {
  const std::size_t middle = output.size() / 2;
  double typical = root_mean_square(output.data(), output.size());
  if (row > 0) typical = std::max(typical, root_mean_square(output.data() + middle / row * row, row));
  double& element = output[middle];
  element += std::copysign(0.02 * std::max(std::abs(element), typical), element);
}

void lose_last_row(Tensor& output, const Shape& shape) {
  const std::int64_t row = shape.rank() > 1 ? shape.elements() / shape[0] : 1;
  std::fill(output.end() - static_cast<std::ptrdiff_t>(row), output.end(), 0.0);
}

void scale_slightly(Tensor& output) {
  for (double& value : output) value *= 1.01;
}

// What is no number must reach the checks that stop a run.
TEST(Activations, HandOnWhatIsNoNumber) {
  for (const OpKind kind : {OpKind::gelu, OpKind::tanh, OpKind::sigmoid, OpKind::silu, OpKind::relu,
                            OpKind::hard_sigmoid, OpKind::hard_swish}) {
    const OpCase test_case = pointwise_case(kind, DType::f32, 7, 24);
    Tensors operands = make_operands(test_case);
    operands[0][5] = std::numeric_limits<double>::quiet_NaN();
    Memory memory(test_case, operands);
    run_kernel(test_case, memory, variants().back());
    const Tensors found = memory.read();
    EXPECT_TRUE(std::isnan(found[1][5])) << test_case.name;
    EXPECT_FALSE(std::isnan(found[1][6])) << test_case.name;
  }
}

TEST(Comparator, NoticesSeededMistakesInEveryOutput) {
  for (const OpCase& test_case : cases()) {
    // On CUDA, which alone rounds f16 ones, others are compared as on the host, whose program has them all.
    if (rounds_attention_weights(OpKind::attention, DType::f16) && !has_rounded_weights(test_case)) continue;
    const Tensors expected = expected_results(test_case, make_operands(test_case));
    ASSERT_EQ(compare(test_case, expected, expected), "") << test_case.name;
    for (std::size_t i = test_case.op().inputs.size(); i < expected.size(); ++i) {
      const std::size_t output = i - test_case.op().inputs.size();
      Tensors disturbed = expected, shortened = expected, scaled = expected;
      const Shape& shape = test_case.graph.value(test_case.op().outputs[output]).shape;
      disturb_one_element(disturbed[i], has_rounded_weights(test_case) ? static_cast<std::size_t>(shape[1]) : 0);
      lose_last_row(shortened[i], shape);
      scale_slightly(scaled[i]);
      for (const Tensors& mistake : {disturbed, shortened, scaled}) {
        if (mistake == expected) continue;
        EXPECT_NE(compare(test_case, expected, mistake), "") << test_case.name << ", output " << output;
      }
    }
  }
}

}  // namespace
}  // namespace l2l::test
