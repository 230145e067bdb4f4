// Elementary functions that vectorise: straight-line code on floats, to be called under `#pragma omp simd`.
#pragma once

#include <bit>
#include <cstdint>

namespace l2l::device::kernels {

// e^x within 2 ulp on [-87, 88]; clamped to that range outside, so that the result is always normal. NaNs stay NaNs:
// both selections have the form of the vector instructions, which return their second operand then.
// x = n ln 2 + r with |r| <= ln(2)/2; the Taylor series of e^r to r^7 is off by 6e-9.
inline __attribute__((always_inline)) float fast_exp(float x) {
  x = -87.0f > x ? -87.0f : x;
  x = 88.0f < x ? 88.0f : x;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const float shifted = x * 1.44269504f + 0x1.8p23f;
  const float n = shifted - 0x1.8p23f;
  float r = x - n * 0x1.62e4p-1f;  // ln 2 in two parts, the first so short that its product with n is exact
  r -= n * 0x1.7f7d1cp-20f;
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) + 127) << 23;
  return series * std::bit_cast<float>(exponent);
}

// tanh(x) within 2e-7 of its value: by its series near 0, elsewhere by e^-2|x|.
inline __attribute__((always_inline)) float fast_tanh(float x) {
  const float magnitude = x < 0 ? -x : x, square = x * x;
  const float exponential = fast_exp(-2.0f * magnitude);
  const float far = (1.0f - exponential) / (1.0f + exponential);
  float series = 62.0f / 2835;
  series = series * square - 17.0f / 315;
  series = series * square + 2.0f / 15;
  series = series * square - 1.0f / 3;
  const float near = x + x * square * series;
  return magnitude < 0.3f ? near : (x < 0 ? -far : far);
}

}  // namespace l2l::device::kernels
