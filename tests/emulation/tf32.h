// TF32: fp32 with ten bits of mantissa, in the high bits of a float whose other 13 are 0.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace l2l::emulation {

inline constexpr std::uint32_t kBehindTf32 = 0x1FFF;

// cvt.rna.tf32.f32: to the nearest, ties away from zero. What is no number stays none.
inline float to_tf32(float value) {
  if (std::isnan(value)) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000) & ~kBehindTf32);
}

inline bool is_tf32(std::uint32_t bits) { return (bits & kBehindTf32) == 0; }

}  // namespace l2l::emulation
