// GELU in its tanh form (GPT-2): y = x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3), written as x / (1 + e^-2u),
// which is the same function and keeps its relative precision where tanh is near -1.
#pragma once

#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {

inline constexpr float kTwiceSqrtTwoOverPi = 1.59576912f;
inline constexpr float kGeluCubic = 0.044715f;

// e^-2u.
inline __attribute__((always_inline)) float gelu_exponential(float x) {
  return fast_exp(-kTwiceSqrtTwoOverPi * x * (1.0f + kGeluCubic * x * x));
}

}  // namespace l2l::device::kernels
