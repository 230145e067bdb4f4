// Elementary functions that vectorise: straight-line code on floats, to be called under `#pragma omp simd`.
#pragma once

#include <bit>
#include <cstdint>

#include "device/kernels/lanes.h"

namespace l2l::device::kernels {

namespace detail {

template <typename Bits, typename Float>
inline __attribute__((always_inline)) Float fast_exp(Float x, Float low, Float high) {
  x = low > x ? low : x;
  x = high < x ? high : x;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const Float shifted = x * 1.44269504f + 0x1.8p23f;
  const Float n = shifted - 0x1.8p23f;
  Float r = x - n * 0x1.62e4p-1f;  // ln 2 in two parts, the first so short that its product with n is exact
  r -= n * 0x1.7f7d1cp-20f;
  Float series = r * (1.0f / 5040) + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  const Bits exponent = (std::bit_cast<Bits>(shifted) + 127) << 23;
  return series * std::bit_cast<Float>(exponent);
}

}  // namespace detail

// e^x within 2 ulp on [-87, 88]; clamped to that range outside, so that the result is always normal. NaNs stay NaNs:
// both selections have the form of the vector instructions, which return their second operand then.
// x = n ln 2 + r with |r| <= ln(2)/2; the Taylor series of e^r to r^7 is off by 6e-9.
inline __attribute__((always_inline)) float fast_exp(float x) {
  return detail::fast_exp<std::uint32_t>(x, -87.0f, 88.0f);
}

// The same bits, a vector at a time. An object holds the bounds over a loop: from constants, g++ 12 makes comparisons
// and blends instead of a maximum and a minimum.
class VectorExp {
 public:
  inline __attribute__((always_inline)) FloatVector operator()(FloatVector x) const {
    typedef std::uint32_t Bits __attribute__((vector_size(kVectorBytes)));
    return detail::fast_exp<Bits>(x, low_, high_);
  }

 private:
  static FloatVector hidden(float value) {
    const volatile float unknown = value;
    return FloatVector{} + unknown;
  }

  FloatVector low_ = hidden(-87.0f), high_ = hidden(88.0f);
};

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
