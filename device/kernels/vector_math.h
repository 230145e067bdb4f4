// Elementary functions that vectorise: straight-line code on floats, to be called under `#pragma omp simd`.
#pragma once

#include <bit>
#include <cstdint>

namespace l2l::device::kernels {

// e^x within 2 ulp on [-87, 88]; clamped to that range outside, so that the result is always normal. NaNs stay NaNs.
// x = n ln 2 + r with |r| <= ln(2)/2; the Taylor series of e^r to r^7 is off by 6e-9.
inline __attribute__((always_inline)) float fast_exp(float x) {
  float bounded = x > -87.0f ? x : -87.0f;
  bounded = bounded < 88.0f ? bounded : 88.0f;
  const float n = __builtin_rintf(bounded * 1.44269504f);
  float r = bounded - n * 0x1.62e4p-1f;  // ln 2 in two parts, the first so short that its product with n is exact
  r -= n * 0x1.7f7d1c00p-20f;
  float series = 1.0f / 5040;
  series = series * r + 1.0f / 720;
  series = series * r + 1.0f / 120;
  series = series * r + 1.0f / 24;
  series = series * r + 1.0f / 6;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  const std::uint32_t exponent = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127) << 23;
  return x != x ? x : series * std::bit_cast<float>(exponent);
}

}  // namespace l2l::device::kernels
