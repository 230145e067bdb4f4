// The gates of a gated linear unit on the device; counterpart of gate.h.
#pragma once

#include "compiler/ir/graph.h"
#include "device/kernels/gelu.cuh"

namespace l2l::device::cuda {

enum class Gate : std::uint8_t { silu, gelu_tanh, gelu };

inline Gate gate_of(const compiler::Attributes& attributes) {
  if (!attributes.gelu) return Gate::silu;
  return attributes.exact ? Gate::gelu : Gate::gelu_tanh;
}

__device__ inline float gate_value(Gate gate, float x) {
  if (gate == Gate::silu) return __fdividef(x, 1.0f + expf(fminf(-x, 80.0f)));
  return gate == Gate::gelu ? gelu<true>(x) : gelu<false>(x);
}

// The activation is x P(x): its derivative P(x) + x P'(x), and P(x).
struct GateDerivative {
  float slope, share;
};

__device__ inline GateDerivative gate_derivative(Gate gate, float x) {
  if (gate == Gate::gelu) return {gelu_derivative<true>(x), normal_distribution(x)};
  if (gate == Gate::gelu_tanh) return {gelu_derivative<false>(x), __fdividef(1.0f, 1.0f + gelu_exponential(x))};
  // With s = P(x): s + x s (1 - s), and 1 - s = e^-x s.
  const float exponential = expf(fminf(-x, 80.0f)), s = __fdividef(1.0f, 1.0f + exponential);
  return {s + x * s * (exponential * s), s};
}

}  // namespace l2l::device::cuda
