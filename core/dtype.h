// Element types and the conversions between them. Immutable.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "core/bytes.h"

namespace l2l {

enum class DType : std::uint8_t { f32, f64, bf16, i32 };

constexpr Bytes size_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16: return 2;
  }
  return 0;
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return "f64";
    case DType::f32: return "f32";
    case DType::i32: return "i32";
    case DType::bf16: return "bf16";
  }
  return "?";
}

// A bfloat16 is the upper half of an fp32. Rounding is to nearest, ties away from zero, as the split master needs
// it to be invertible (DESIGN.md, Precision): the wire is (bits + 0x8000) >> 16. NaNs stay NaNs.
struct bf16 {
  std::uint16_t bits;
};

inline float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

inline bf16 to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = nan ? ((bits | 0x00400000u) >> 16) : ((bits + 0x8000u) >> 16);
  return {static_cast<std::uint16_t>(rounded)};
}

}  // namespace l2l
