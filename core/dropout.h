// How dropout takes its decisions from random numbers (core/philox.h), on every device.
#pragma once

#include <cstdint>

#include "core/philox.h"

namespace l2l {

// Which random bits decide whether element i of a tensor is kept. A run keeps to what it began with.
enum class DropoutMasks : std::uint8_t {
  words = 1,  // word i % 4 of block i / 4
  bytes = 2   // byte i % 16 of block i / 16, where 256ths are fine enough for the probability; elsewhere as `words`
};
inline constexpr DropoutMasks kNewestDropoutMasks = DropoutMasks::bytes;

// An element is kept when its word is at or above this threshold; what is kept is scaled by 1 / (1 - p).
constexpr std::uint32_t dropout_threshold(float probability) {
  return static_cast<std::uint32_t>(static_cast<double>(probability) * 4294967296.0);
}

// The same of bytes, where p is `probability` rounded to 256ths. 0 if that changes p or 1 - p by more than 1/32 of it.
constexpr std::uint32_t dropout_byte_threshold(float probability) {
  const float scaled = 256 * probability, smaller = probability < 0.5f ? scaled : 256 - scaled;
  const std::uint32_t threshold = static_cast<std::uint32_t>(scaled + 0.5f);
  const float error = static_cast<float>(threshold) - scaled;
  return 32 * (error < 0 ? -error : error) <= smaller ? threshold : 0;
}

// block[i], without an array that CUDA kernels would have to keep in memory.
constexpr std::uint32_t word_of(const PhiloxBlock& block, int i) {
  return i < 2 ? (i == 0 ? block[0] : block[1]) : (i == 2 ? block[2] : block[3]);
}

}  // namespace l2l
