// The gates of a gated linear unit, y = activation(gate) up: each activation is x P(x), with P the logistic function
// (SiLU), that of GELU's tanh form, or the normal distribution (GELU).
#pragma once

#include "device/kernels/convert.h"
#include "device/kernels/gelu.h"

namespace l2l::device::kernels {

// The derivative P(x) + x P'(x), and P(x).
struct GateDerivative {
  float slope, share;
};

struct SiluGate {
  __attribute__((always_inline)) static float value(float x) { return x / (1.0f + fast_exp(-x)); }
  // With s = P(x): s + x s (1 - s), and 1 - s = e^-x s.
  __attribute__((always_inline)) static GateDerivative derivative(float x) {
    const float exponential = fast_exp(-x), s = 1.0f / (1.0f + exponential);
    return {s + x * s * (exponential * s), s};
  }
};

struct TanhGeluGate {
  __attribute__((always_inline)) static float value(float x) { return x / (1.0f + gelu_exponential(x)); }
  __attribute__((always_inline)) static GateDerivative derivative(float x) {
    const float exponential = gelu_exponential(x);
    const float s = 1.0f / (1.0f + exponential);
    const float slope = kTwiceSqrtTwoOverPi * (1.0f + 3.0f * kGeluCubic * x * x);
    return {s + x * s * (exponential * s) * slope, s};
  }
};

struct GeluGate {
  __attribute__((always_inline)) static float value(float x) {
    return x * normal_distribution(x, normal_exponential(x));
  }
  __attribute__((always_inline)) static GateDerivative derivative(float x) {
    const float exponential = normal_exponential(x), share = normal_distribution(x, exponential);
    return {share + x * kNormalDensity * exponential, share};
  }
};

template <template <typename, typename> class KernelFor, typename Gate>
struct WithGate {
  template <typename T>
  using OfType = KernelFor<T, Gate>;
};

// The kernel class for the type of the first output and the gate that the op's attributes name.
template <template <typename, typename> class KernelFor>
std::unique_ptr<Kernel> make_for_gate(const OpView& op) {
  if (!op.attributes.gelu) return make_for_output<WithGate<KernelFor, SiluGate>::template OfType>(op);
  return op.attributes.exact ? make_for_output<WithGate<KernelFor, GeluGate>::template OfType>(op)
                             : make_for_output<WithGate<KernelFor, TanhGeluGate>::template OfType>(op);
}

}  // namespace l2l::device::kernels
