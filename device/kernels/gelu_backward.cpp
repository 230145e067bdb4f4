#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/gelu.h"

namespace l2l::device::kernels {
namespace {

// With s = 1 / (1 + e^-2u): dy/dx = s + x s (1 - s) d(2u)/dx, and 1 - s = e^-2u s.
struct TanhGeluGradient {
  __attribute__((always_inline)) float operator()(float dy, float x) const {
    const float exponential = gelu_exponential(x);
    const float s = 1.0f / (1.0f + exponential);
    const float slope = kTwiceSqrtTwoOverPi * (1.0f + 3.0f * kGeluCubic * x * x);
    return dy * (s + x * s * (exponential * s) * slope);
  }
};

// dy/dx = Phi(x) + x phi(x).
struct ExactGeluGradient {
  __attribute__((always_inline)) float operator()(float dy, float x) const {
    const float exponential = normal_exponential(x);
    return dy * (normal_distribution(x, exponential) + x * kNormalDensity * exponential);
  }
};

}  // namespace

const Factory make_gelu_backward = [](const OpView& op) {
  return (op.attributes.exact ? make_for_output<TwoInputs<ExactGeluGradient>::OfType>
                              : make_for_output<TwoInputs<TanhGeluGradient>::OfType>)(op);
};

}  // namespace l2l::device::kernels
