// Element types and the conversions between them. Immutable.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "core/bytes.h"

namespace l2l {

enum class DType : std::uint8_t { f32, f64, bf16, f16, i32 };

constexpr Bytes size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
  }
  return 0;
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "f64";
    case DType::f32:
      return "f32";
    case DType::i32:
      return "i32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
  }
  return "?";
}

// Types of computation, wires and gradients.
constexpr bool is_compute_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

// A bfloat16 is the upper half of an fp32. Rounding is to nearest, ties away from zero, which the split master can
// invert (optimizers/formats/masters.h): (bits + 0x8000) >> 16. NaNs stay NaNs.
struct bf16 {
  std::uint16_t bits;
};

inline float to_float(bf16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16); }

inline bf16 to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = nan ? ((bits | 0x00400000u) >> 16) : ((bits + 0x8000u) >> 16);
  return {static_cast<std::uint16_t>(rounded)};
}

// IEEE 754 binary16: 5 bits of exponent, 10 of fraction; the largest number is 65504, subnormals are kept.
struct f16 {
  std::uint16_t bits;
};

// Both conversions are free of branches, so that loops over them are vectorized, and give the bits of F16C
// (tests/core). A subnormal half comes from fp32 arithmetic on normal numbers, so flush-to-zero does not affect it.
inline float to_float(f16 value) {
  constexpr std::uint32_t kSmallest = 113u << 23;  // 2^-14, the smallest normal half
  const std::uint32_t magnitude = static_cast<std::uint32_t>(value.bits & 0x7fffu) << 13;
  const float subnormal = std::bit_cast<float>(magnitude + kSmallest) - std::bit_cast<float>(kSmallest);
  const std::uint32_t special = (magnitude + (224u << 23)) | (magnitude > 0x0f800000u ? 0x00400000u : 0u);
  const std::uint32_t finite =
      magnitude < 0x00800000u ? std::bit_cast<std::uint32_t>(subnormal) : magnitude + (112u << 23);
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  return std::bit_cast<float>(sign | (magnitude >= 0x0f800000u ? special : finite));
}

// To the nearest, ties to even; from 65520 on infinity. NaNs stay NaNs.
inline f16 to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Adding 0.5 leaves the fraction in units of 2^-24, the smallest half, rounded by the addition.
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const std::uint32_t special = magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : 0x7c00u;
  const std::uint32_t small = magnitude < (113u << 23) ? subnormal : normal;
  const std::uint32_t rounded = magnitude >= (143u << 23) ? special : small;  // 65536
  return {static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | rounded)};
}

// `value` rounded to a compute type, and back in fp32.
inline float rounded_to(DType dtype, float value) {
  if (dtype == DType::f32) return value;
  return dtype == DType::bf16 ? to_float(to_bf16(value)) : to_float(to_f16(value));
}

}  // namespace l2l
