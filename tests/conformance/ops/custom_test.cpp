// The kernels of a program's own op: what the functions make, whatever the dtype, the number of rows and of workers;
// and the check of gradients, which notices wrong ones.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/conformance/ops/harness.h"

namespace l2l::test {
namespace {

using compiler::OpKind;

// y [columns + 1]: sin(x_j) p_j, and the sum of x.
CustomOp sines() {
  CustomOp op{.name = "sines", .version = "1"};
  op.result_columns = [](std::int64_t columns) { return columns + 1; };
  op.forward = [](const CustomForward& call) {
    for (std::int64_t row = 0; row < call.rows; ++row) {
      const auto x = call.x.subspan(static_cast<std::size_t>(row * call.columns), call.parameters.size());
      const auto y = call.y.subspan(static_cast<std::size_t>(row * call.result_columns));
      y[x.size()] = 0;
      for (std::size_t j = 0; j < x.size(); ++j) y[j] = std::sin(x[j]) * call.parameters[j], y[x.size()] += x[j];
    }
  };
  op.backward = [](const CustomBackward& call) {
    for (std::int64_t row = 0; row < call.rows; ++row) {
      const auto at = static_cast<std::size_t>(row * call.columns);
      const auto dy = call.dy.subspan(static_cast<std::size_t>(row * call.result_columns));
      for (std::size_t j = 0; j < call.parameters.size(); ++j) {
        const float x = call.x[at + j];
        call.dx[at + j] = dy[j] * std::cos(x) * call.parameters[j] + dy[call.parameters.size()];
        if (!call.dparameters.empty()) call.dparameters[j] += dy[j] * std::sin(x);
      }
    }
  };
  return op;
}

OpCase custom_case(OpKind kind, DType dtype, std::int64_t rows, std::int64_t columns) {
  OpCase result;
  result.name = std::string(compiler::name_of(kind)) + "_" + std::string(name_of(dtype));
  const auto add = [&](DType type, Shape shape) {
    result.graph.values.push_back({"v", type, shape});
    return static_cast<compiler::ValueId>(result.graph.values.size() - 1);
  };
  compiler::Op op{kind, {}, {}, {.columns = columns + 1}};
  op.attributes.custom = {std::make_shared<const CustomOp>(sines())};
  if (kind == OpKind::custom) {
    op.inputs = {add(dtype, {rows, columns}), add(dtype, {columns})};
    op.outputs = {add(dtype, {rows, columns + 1})};
  } else {
    op.inputs = {add(dtype, {rows, columns + 1}), add(dtype, {rows, columns}), add(dtype, {rows, columns + 1}),
                 add(dtype, {columns})};
    op.outputs = {add(dtype, {rows, columns}), add(DType::f32, {columns})};
  }
  result.graph.ops.push_back(std::move(op));
  return result;
}

Tensor numbers(std::int64_t count, DType dtype, int seed) {
  Tensor tensor(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tensor.size(); ++i)
    tensor[i] = round_to(dtype, std::sin(0.37 * static_cast<double>(i) + seed));
  return tensor;
}

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
      const Tensor x = numbers(rows * kColumns, dtype, 1), p = numbers(kColumns, dtype, 2);
      const Tensor dy = numbers(rows * (kColumns + 1), dtype, 3);
      Tensor y, dx(x.size()), before = numbers(kColumns, DType::f32, 4), dp = before;
      for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
        double sum = 0;
        for (std::size_t j = 0; j < kColumns; ++j) {
          const double value = x[row * kColumns + j], gradient = dy[row * (kColumns + 1) + j];
          y.push_back(std::sin(value) * p[j]);
          sum += value;
          dx[row * kColumns + j] = gradient * std::cos(value) * p[j] + dy[row * (kColumns + 1) + kColumns];
          dp[j] += gradient * std::sin(value);
        }
        y.push_back(sum);
      }
      check(custom_case(OpKind::custom, dtype, rows, kColumns), {x, p, Tensor(y.size())}, {x, p, y});
      check(custom_case(OpKind::custom_backward, dtype, rows, kColumns), {dy, x, y, p, Tensor(x.size()), before},
            {dy, x, y, p, dx, dp});
    }
  }
}

}  // namespace
}  // namespace l2l::test
