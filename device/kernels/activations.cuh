// Activations on the device; counterpart of activations.h. GELU's tanh form as there, its exact form by the error
// function.
#pragma once

#include "compiler/ir/graph.h"

namespace l2l::device::cuda {

inline constexpr float kTwiceSqrtTwoOverPi = 1.59576912f;
inline constexpr float kGeluCubic = 0.044715f;

// e^-2u, u = sqrt(2/pi) (x + 0.044715 x^3); at most e^80, so that its products with s below stay finite.
__device__ inline float gelu_exponential(float x) {
  return expf(fminf(-kTwiceSqrtTwoOverPi * x * (1.0f + kGeluCubic * x * x), 80.0f));
}

// Phi(x), whose lower tail keeps its relative precision.
__device__ inline float normal_distribution(float x) { return 0.5f * erfcf(-0.707106781f * x); }

template <bool kExact>
__device__ inline float gelu(float x) {
  if constexpr (kExact) return x * normal_distribution(x);
  return __fdividef(x, 1.0f + gelu_exponential(x));
}

// With s = 1 / (1 + e^-2u): s + x s (1 - s) d(2u)/dx, and 1 - s = e^-2u s. Exact: Phi(x) + x phi(x).
template <bool kExact>
__device__ inline float gelu_derivative(float x) {
  if constexpr (kExact) return normal_distribution(x) + 0.398942280f * x * expf(-0.5f * x * x);
  const float exponential = gelu_exponential(x);
  const float s = __fdividef(1.0f, 1.0f + exponential);
  const float slope = kTwiceSqrtTwoOverPi * (1.0f + 3.0f * kGeluCubic * x * x);
  return s + x * s * (exponential * s) * slope;
}

// Those of a gated linear unit.
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
