#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/conformance/ops/reference.h"

namespace l2l::test {
namespace {

double gelu_argument(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }

double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double normal_distribution(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

void reference_gelu(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    const double x = call[0][i];
    const double tanh = 0.5 * x * (1 + std::tanh(gelu_argument(x)));
    call[1][i] = call.op.attributes.exact ? x * normal_distribution(x) : tanh;
  }
}

void reference_gelu_backward(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    const double x = call[1][i], tanh = std::tanh(gelu_argument(x));
    const double slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
    const double of_tanh = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * slope;
    call[2][i] = call[0][i] * (call.op.attributes.exact ? normal_distribution(x) + x * normal_density(x) : of_tanh);
  }
}

void reference_tanh(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[1][i] = std::tanh(call[0][i]);
}

void reference_tanh_backward(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[2][i] = call[0][i] * (1 - call[1][i] * call[1][i]);
}

void reference_sigmoid(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[1][i] = sigmoid(call[0][i]);
}

void reference_sigmoid_backward(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[2][i] = call[0][i] * call[1][i] * (1 - call[1][i]);
}

void reference_silu(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[1][i] = call[0][i] * sigmoid(call[0][i]);
}

void reference_silu_backward(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    const double x = call[1][i], s = sigmoid(x);
    call[2][i] = call[0][i] * s * (1 + x * (1 - s));
  }
}

void reference_hard_sigmoid(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[1][i] = std::clamp(call[0][i] / 6 + 0.5, 0.0, 1.0);
}

void reference_hard_sigmoid_backward(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[2][i] = std::abs(call[1][i]) < 3 ? call[0][i] / 6 : 0;
}

void reference_hard_swish(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    call[1][i] = call[0][i] * std::clamp(call[0][i] / 6 + 0.5, 0.0, 1.0);
  }
}

void reference_hard_swish_backward(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    const double x = call[1][i];
    call[2][i] = call[0][i] * (x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6);
  }
}

void reference_relu(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[1][i] = std::max(call[0][i], 0.0);
}

void reference_relu_backward(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[2][i] = call[1][i] > 0 ? call[0][i] : 0;
}

void reference_multiply(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[2][i] = call[0][i] * call[1][i];
}

namespace {

// An activation and its derivative.
struct Gate {
  double value, slope;
};

Gate gate(const ReferenceCall& call, double x) {
  if (!call.op.attributes.gelu) {
    const double s = sigmoid(x);
    return {x * s, s * (1 + x * (1 - s))};
  }
  if (call.op.attributes.exact) {
    const double phi = 0.5 * std::erfc(-x / std::sqrt(2.0));
    return {x * phi, phi + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi)};
  }
  const double tanh = std::tanh(gelu_argument(x));
  const double slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
  return {0.5 * x * (1 + tanh), 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * slope};
}

}  // namespace

// x is [rows, gate and up], y [rows, width].
void reference_swiglu(const ReferenceCall& call) {
  const auto width = static_cast<std::size_t>(call.shape(1)[1]);
  for (std::size_t i = 0; i < call[1].size(); ++i) {
    const std::size_t at = i / width * 2 * width + i % width;
    call[1][i] = gate(call, call[0][at]).value * call[0][at + width];
  }
}

// Operands: dy, x, dx.
void reference_swiglu_backward(const ReferenceCall& call) {
  const auto width = static_cast<std::size_t>(call.shape(0)[1]);
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    const std::size_t at = i / width * 2 * width + i % width;
    const Gate own = gate(call, call[1][at]);
    call[2][at] = call[0][i] * call[1][at + width] * own.slope;
    call[2][at + width] = call[0][i] * own.value;
  }
}

void reference_dropout(const ReferenceCall& call) {
  const std::size_t first = static_cast<std::size_t>(call.op.attributes.shard.index) * call[0].size();
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    call[1][i] = call[0][i] * dropout_factor(call, static_cast<std::int64_t>(first + i));
  }
}

void reference_add(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[2][i] = call[0][i] + call[1][i];
}

void reference_columns(const ReferenceCall& call) {
  const auto width = static_cast<std::size_t>(call.shape(0)[1]), count = static_cast<std::size_t>(call.shape(1)[1]);
  const auto first = static_cast<std::size_t>(call.op.attributes.first);
  for (std::size_t i = 0; i < call[1].size(); ++i) {
    call[1][i] = static_cast<double>(call.op.attributes.factor) * call[0][i / count * width + first + i % count];
  }
}

void reference_add_columns(const ReferenceCall& call) {
  const auto width = static_cast<std::size_t>(call.shape(0)[1]), count = static_cast<std::size_t>(call.shape(1)[1]);
  const auto first = static_cast<std::size_t>(call.op.attributes.first);
  call[2] = call[0];
  for (std::size_t i = 0; i < call[1].size(); ++i) {
    call[2][i / count * width + first + i % count] += static_cast<double>(call.op.attributes.factor) * call[1][i];
  }
}

void reference_accumulate(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[1][i] += call[0][i];
}

void reference_tree_sum(const ReferenceCall& call) {
  const std::size_t columns = call[1].size();
  std::fill(call[1].begin(), call[1].end(), 0.0);
  for (std::size_t i = 0; i < call[0].size(); ++i) call[1][i % columns] += call[0][i];
}

void reference_convert(const ReferenceCall& call) {
  call[1] = call[0];
  if (call.op.outputs.size() == 1) return;
  call[2][0] = 0;
  for (const double x : call[0]) {
    const double y = round_to(call.dtype(1), x);
    call[2][0] += y * y;
  }
}

namespace {

// Of one element of a stream of `dtype`: fixed point counts units of 2^-16.
double unit(DType dtype) { return dtype == DType::i32 ? 0x1p-16 : 1; }
double to_stream(DType dtype, double value) {
  return dtype == DType::i32 ? std::nearbyint(value / unit(dtype)) : value;
}

}  // namespace

void reference_split_streams(const ReferenceCall& call) {
  for (std::size_t output = 1; output <= call.op.outputs.size(); ++output) {
    for (std::size_t i = 0; i < call[0].size(); ++i) call[output][i] = to_stream(call.dtype(1), call[0][i]);
  }
}

void reference_merge_streams(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[2][i] = (call[0][i] + call[1][i]) * unit(call.dtype(0));
}

void reference_read_stream(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[1][i] = call[0][i] * unit(call.dtype(0));
}

void reference_reversible_add(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    const double branch = to_stream(call.dtype(0), call[1][i]);
    call[2][i] = call.op.attributes.inverse ? call[0][i] - branch : call[0][i] + branch;
  }
}

}  // namespace l2l::test
