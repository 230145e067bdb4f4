// Activations, alone or as the gate of a gated linear unit, y = activation(gate) up. Each is x P(x), with P the
// logistic function (SiLU), that of GELU's tanh form, or the normal distribution (GELU).
//
// GELU in its tanh form (GPT-2): y = x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3), written as x / (1 + e^-2u),
// which is the same function and keeps its relative precision where tanh is near -1; and in its exact form (BERT),
// y = x Phi(x) with Phi the distribution function of the normal distribution.
#pragma once

#include "device/kernels/convert.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {

inline constexpr float kTwiceSqrtTwoOverPi = 1.59576912f;
inline constexpr float kGeluCubic = 0.044715f;
inline constexpr float kNormalDensity = 0.398942280f;  // of the normal distribution at 0

// e^-2u.
inline __attribute__((always_inline)) float gelu_exponential(float x) {
  return fast_exp(-kTwiceSqrtTwoOverPi * x * (1.0f + kGeluCubic * x * x));
}

// Phi(x), `exponential` being e^(-x^2/2). With z = |x| / sqrt 2 and t = 1 / (1 + z/2), erfc(z) = e^(-z^2) t Q(t): Q is
// the polynomial of degree 8 with the least relative error for z in [0, 9.4] (4e-8; in fp32 3e-7), so that the tail
// keeps its relative precision.
inline __attribute__((always_inline)) float normal_distribution(float x, float exponential) {
  const float magnitude = x < 0 ? -x : x;
  const float t = 1.0f / (1.0f + 0.353553391f * magnitude);
  float series = -0.0588470623f;
  series = series * t + 0.283487439f;
  series = series * t - 0.484936506f;
  series = series * t + 0.275462568f;
  series = series * t - 0.0248192884f;
  series = series * t + 0.20191659f;
  series = series * t + 0.24330021f;
  series = series * t + 0.282348007f;
  series = series * t + 0.282087982f;
  const float tail = 0.5f * exponential * t * series;
  return x < 0 ? tail : 1.0f - tail;
}

// e^(-x^2/2).
inline __attribute__((always_inline)) float normal_exponential(float x) { return fast_exp(-0.5f * x * x); }

// The derivative P(x) + x P'(x), and P(x).
struct ActivationDerivative {
  float slope, share;
};

struct Silu {
  __attribute__((always_inline)) static float value(float x) { return x / (1.0f + fast_exp(-x)); }
  // With s = P(x): s + x s (1 - s), and 1 - s = e^-x s.
  __attribute__((always_inline)) static ActivationDerivative derivative(float x) {
    const float exponential = fast_exp(-x), s = 1.0f / (1.0f + exponential);
    return {s + x * s * (exponential * s), s};
  }
};

struct TanhGelu {
  __attribute__((always_inline)) static float value(float x) { return x / (1.0f + gelu_exponential(x)); }
  // With s = P(x): s + x s (1 - s) d(2u)/dx, and 1 - s = e^-2u s.
  __attribute__((always_inline)) static ActivationDerivative derivative(float x) {
    const float exponential = gelu_exponential(x);
    const float s = 1.0f / (1.0f + exponential);
    const float slope = kTwiceSqrtTwoOverPi * (1.0f + 3.0f * kGeluCubic * x * x);
    return {s + x * s * (exponential * s) * slope, s};
  }
};

struct ExactGelu {
  __attribute__((always_inline)) static float value(float x) {
    return x * normal_distribution(x, normal_exponential(x));
  }
  // Phi(x) + x phi(x).
  __attribute__((always_inline)) static ActivationDerivative derivative(float x) {
    const float exponential = normal_exponential(x), share = normal_distribution(x, exponential);
    return {share + x * kNormalDensity * exponential, share};
  }
};

template <template <typename, typename> class KernelFor, typename Activation>
struct WithActivation {
  template <typename T>
  using OfType = KernelFor<T, Activation>;
};

// The kernel class for the type of the first output and the activation that the op's attributes name.
template <template <typename, typename> class KernelFor>
std::unique_ptr<Kernel> make_for_activation(const OpView& op) {
  if (!op.attributes.gelu) return make_for_output<WithActivation<KernelFor, Silu>::template OfType>(op);
  return op.attributes.exact ? make_for_output<WithActivation<KernelFor, ExactGelu>::template OfType>(op)
                             : make_for_output<WithActivation<KernelFor, TanhGelu>::template OfType>(op);
}

}  // namespace l2l::device::kernels
