// The kernels of a program's own op: what the functions make, whatever the dtype, the number of rows and of workers.
#include <gtest/gtest.h>

#include "tests/conformance/ops/sines.h"

namespace l2l::test {
namespace {

using compiler::OpKind;

void check(const OpCase& test_case, const Tensors& operands, const Tensors& expected) {
  std::vector<std::byte> first;
  for (const int threads : {1, 2, 5}) {
    Memory memory(test_case, operands);
    Workers workers("ops", threads);
    run_kernel(test_case, memory, workers);
    EXPECT_EQ(compare(test_case, expected, memory.read()), "") << test_case.name << ", " << threads << " threads";
    if (first.empty()) first = memory.output_bytes();
    EXPECT_TRUE(first == memory.output_bytes()) << test_case.name << ", " << threads << " threads";
  }
}

TEST(CustomOps, GiveWhatTheirFunctionsGive) {
  constexpr std::int64_t kColumns = 37;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t rows : {1, 33, 2500}) {
      const SinesExample example(dtype, rows, kColumns);
      check(custom_case(OpKind::custom, dtype, rows, kColumns), example.forward, example.forward_result);
      check(custom_case(OpKind::custom_backward, dtype, rows, kColumns), example.backward, example.backward_result);
    }
  }
}

// Random numbers follow from where an element is, however the rows are cut into calls, and from the launch.
TEST(CustomOps, DrawByPlace) {
  CustomOp drawing{.name = "drawing", .version = "1"};
  drawing.draws = true;
  drawing.result_columns = [](std::int64_t columns) { return columns + 1; };
  drawing.forward = [](const CustomForward& call) {
    for (std::int64_t row = 0; row < call.rows; ++row) {
      const auto y = call.y.subspan(static_cast<std::size_t>(row * call.result_columns));
      for (std::int64_t j = 0; j < call.result_columns; ++j) {
        y[static_cast<std::size_t>(j)] =
            static_cast<float>((call.first_row + row) * 1000 + j + 10 * call.op + 100 * call.place.microbatch);
      }
    }
  };
  drawing.backward = [](const CustomBackward&) {};
  constexpr std::int64_t kRows = 2500, kColumns = 4;
  OpCase test_case = custom_case(OpKind::custom, DType::f32, kRows, kColumns, drawing);
  test_case.graph.ops[0].attributes.rng_op = 3;
  test_case.parameters.microbatch = 2;
  Tensors expected = SinesExample(DType::f32, kRows, kColumns).forward;
  for (std::size_t i = 0; i < expected[2].size(); ++i) {
    expected[2][i] = static_cast<double>(i / (kColumns + 1) * 1000 + i % (kColumns + 1) + 30 + 200);
  }
  check(test_case, SinesExample(DType::f32, kRows, kColumns).forward, expected);
}

}  // namespace
}  // namespace l2l::test
