#include <cmath>
#include <numbers>

#include "tests/conformance/ops/reference.h"

namespace l2l::test {
namespace {

double gelu_argument(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }

}  // namespace

void reference_gelu(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    const double x = call[0][i];
    call[1][i] = 0.5 * x * (1 + std::tanh(gelu_argument(x)));
  }
}

void reference_gelu_backward(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    const double x = call[1][i], tanh = std::tanh(gelu_argument(x));
    const double slope = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
    call[2][i] = call[0][i] * (0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * slope);
  }
}

void reference_dropout(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) {
    call[1][i] = call[0][i] * dropout_factor(call, static_cast<std::int64_t>(i));
  }
}

void reference_add(const ReferenceCall& call) {
  for (std::size_t i = 0; i < call[0].size(); ++i) call[2][i] = call[0][i] + call[1][i];
}

void reference_convert(const ReferenceCall& call) { call[1] = call[0]; }

}  // namespace l2l::test
