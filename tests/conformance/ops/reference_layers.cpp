#include <cmath>

#include "tests/conformance/ops/reference.h"

namespace l2l::test {
namespace {

struct Size {
  std::size_t rows, columns;
  explicit Size(const Shape& shape)
      : rows(static_cast<std::size_t>(shape[0])), columns(static_cast<std::size_t>(shape[1])) {}
};

std::size_t index_of(double token) { return static_cast<std::size_t>(token); }

}  // namespace

std::size_t place_of(const ReferenceCall& call, const Tensor* places, std::size_t row) {
  row += static_cast<std::size_t>(call.op.attributes.shard.index * call.shape(0)[0]);
  if (places != nullptr) return static_cast<std::size_t>((*places)[row]);
  return row % static_cast<std::size_t>(call.op.attributes.sequence);
}

void reference_embedding(const ReferenceCall& call) {
  const Size y(call.shape(call.op.inputs.size()));
  for (std::size_t r = 0; r < y.rows; ++r) {
    const std::size_t position = place_of(call, call.of_rows(3), r);
    for (std::size_t c = 0; c < y.columns; ++c) {
      call.output(0)[r * y.columns + c] =
          call[1][index_of(call[0][r]) * y.columns + c] + call[2][position * y.columns + c];
    }
  }
}

void reference_embedding_backward(const ReferenceCall& call) {
  const Size dy(call.shape(1));
  for (std::size_t r = 0; r < dy.rows; ++r) {
    const std::size_t position = place_of(call, call.of_rows(2), r);
    for (std::size_t c = 0; c < dy.columns; ++c) {
      call.output(0)[index_of(call[0][r]) * dy.columns + c] += call[1][r * dy.columns + c];
      call.output(1)[position * dy.columns + c] += call[1][r * dy.columns + c];
    }
  }
}

void reference_layer_norm(const ReferenceCall& call) {
  const Size x(call.shape(0));
  const double n = static_cast<double>(x.columns);
  for (std::size_t r = 0; r < x.rows; ++r) {
    const double* row = &call[0][r * x.columns];
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < x.columns; ++c) mean += row[c] / n;
    for (std::size_t c = 0; c < x.columns; ++c) variance += (row[c] - mean) * (row[c] - mean) / n;
    const double inverse = 1 / std::sqrt(variance + static_cast<double>(call.op.attributes.epsilon));
    for (std::size_t c = 0; c < x.columns; ++c) {
      call[3][r * x.columns + c] = (row[c] - mean) * inverse * call[1][c] + call[2][c];
    }
    call[4][r] = mean;
    call[5][r] = inverse;
  }
}

void reference_layer_norm_backward(const ReferenceCall& call) {
  const Size x(call.shape(1));
  const double n = static_cast<double>(x.columns);
  for (std::size_t r = 0; r < x.rows; ++r) {
    const double mean = call[3][r], inverse = call[4][r];
    double sum = 0, projection = 0;
    for (std::size_t c = 0; c < x.columns; ++c) {
      const std::size_t i = r * x.columns + c;
      const double normalized = (call[1][i] - mean) * inverse, g = call[0][i] * call[2][c];
      sum += g / n;
      projection += g * normalized / n;
      call[6][c] += call[0][i] * normalized;
      call[7][c] += call[0][i];
    }
    for (std::size_t c = 0; c < x.columns; ++c) {
      const std::size_t i = r * x.columns + c;
      call[5][i] = (call[0][i] * call[2][c] - sum - (call[1][i] - mean) * inverse * projection) * inverse;
    }
  }
}

void reference_rms_norm(const ReferenceCall& call) {
  const Size x(call.shape(0));
  for (std::size_t r = 0; r < x.rows; ++r) {
    const double* row = &call[0][r * x.columns];
    double squares = 0;
    for (std::size_t c = 0; c < x.columns; ++c) squares += row[c] * row[c];
    const double inverse =
        1 / std::sqrt(squares / static_cast<double>(x.columns) + static_cast<double>(call.op.attributes.epsilon));
    for (std::size_t c = 0; c < x.columns; ++c) {
      call[2][r * x.columns + c] = row[c] * inverse * (gain_offset(call) + call[1][c]);
    }
    call[3][r] = inverse;
  }
}

// Operands: dy, x, gain, inverse_rms, dx, dgain. d inverse / d x = -x inverse^3 / n.
void reference_rms_norm_backward(const ReferenceCall& call) {
  const Size x(call.shape(1));
  for (std::size_t r = 0; r < x.rows; ++r) {
    const double inverse = call[3][r];
    double product = 0;
    for (std::size_t c = 0; c < x.columns; ++c) {
      const std::size_t i = r * x.columns + c;
      product += call[0][i] * (gain_offset(call) + call[2][c]) * call[1][i];
      call[5][c] += call[0][i] * call[1][i] * inverse;
    }
    for (std::size_t c = 0; c < x.columns; ++c) {
      const std::size_t i = r * x.columns + c;
      const double through_rms = call[1][i] * inverse * inverse * inverse / static_cast<double>(x.columns) * product;
      call[4][i] = call[0][i] * (gain_offset(call) + call[2][c]) * inverse - through_rms;
    }
  }
}

void reference_matmul(const ReferenceCall& call) {
  const compiler::Attributes& attributes = call.op.attributes;
  const bool bias = call.op.inputs.size() > 2;
  const std::size_t result = bias ? 3 : 2;
  const Size y(call.shape(result)), a(call.shape(0)), b(call.shape(1));
  const std::size_t steps = attributes.transpose_a ? a.rows : a.columns;
  for (std::size_t i = 0; i < y.rows; ++i) {
    for (std::size_t j = 0; j < y.columns; ++j) {
      double sum = bias ? call[2][j] : 0;
      for (std::size_t k = 0; k < steps; ++k) {
        sum += call[0][attributes.transpose_a ? k * a.columns + i : i * a.columns + k] *
               call[1][attributes.transpose_b ? j * b.columns + k : k * b.columns + j];
      }
      double& out = call[result][i * y.columns + j];
      out = attributes.accumulate ? out + sum : sum;
    }
  }
}

void reference_bias_gradient(const ReferenceCall& call) {
  const Size dy(call.shape(0));
  for (std::size_t r = 0; r < dy.rows; ++r) {
    for (std::size_t c = 0; c < dy.columns; ++c) call[1][c] += call[0][r * dy.columns + c];
  }
}

}  // namespace l2l::test
