// An op of a program's own with which the kernels for such ops are tested, on the host and on a GPU.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/ops/harness.h"

namespace l2l::test {

// sines.cu
void sines_forward_on_gpu(const CustomForwardOnGpu& call);
void sines_backward_on_gpu(const CustomBackwardOnGpu& call);

// y [columns + 1]: sin(x_j) p_j, and the sum of x.
inline CustomOp sines() {
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

inline OpCase custom_case(compiler::OpKind kind, DType dtype, std::int64_t rows, std::int64_t columns,
                          CustomOp custom = sines()) {
  OpCase result;
  result.name = std::string(compiler::name_of(kind)) + "_" + std::string(name_of(dtype));
  const auto add = [&](DType type, Shape shape) {
    result.graph.values.push_back({"v", type, shape});
    return static_cast<compiler::ValueId>(result.graph.values.size() - 1);
  };
  compiler::Op op{kind, {}, {}, {.columns = columns + 1}};
  op.attributes.custom = {std::make_shared<const CustomOp>(std::move(custom))};
  if (kind == compiler::OpKind::custom) {
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

inline Tensor numbers(std::int64_t count, DType dtype, int seed) {
  Tensor tensor(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tensor.size(); ++i)
    tensor[i] = round_to(dtype, std::sin(0.37 * static_cast<double>(i) + seed));
  return tensor;
}

// Operands of custom and of custom_backward, and what they become.
struct SinesExample {
  Tensors forward, forward_result, backward, backward_result;

  SinesExample(DType dtype, std::int64_t rows, std::int64_t columns) {
    const auto width = static_cast<std::size_t>(columns);
    const Tensor x = numbers(rows * columns, dtype, 1), p = numbers(columns, dtype, 2);
    const Tensor dy = numbers(rows * (columns + 1), dtype, 3);
    Tensor y, dx(x.size()), before = numbers(columns, DType::f32, 4), dp = before;
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      double sum = 0;
      for (std::size_t j = 0; j < width; ++j) {
        const double value = x[row * width + j], gradient = dy[row * (width + 1) + j];
        y.push_back(std::sin(value) * p[j]);
        sum += value;
        dx[row * width + j] = gradient * std::cos(value) * p[j] + dy[row * (width + 1) + width];
        dp[j] += gradient * std::sin(value);
      }
      y.push_back(sum);
    }
    forward = {x, p, Tensor(y.size())};
    forward_result = {x, p, y};
    backward = {dy, x, y, p, Tensor(x.size()), before};
    backward_result = {dy, x, y, p, dx, dp};
  }
};

}  // namespace l2l::test
