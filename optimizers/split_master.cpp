#include "optimizers/split_master.h"

#include <bit>
#include <cassert>
#include <cstddef>

namespace l2l::optimizers {

void split(std::span<const float> master, std::span<std::uint16_t> wire, std::span<std::uint16_t> low) {
  assert(wire.size() == master.size() && low.size() == master.size());
  const float* const source = master.data();
  std::uint16_t* const high_half = wire.data();
  std::uint16_t* const low_half = low.data();
  const std::size_t size = master.size();
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(source[i]);
    high_half[i] = static_cast<std::uint16_t>((bits + 0x8000u) >> 16);
    low_half[i] = static_cast<std::uint16_t>(bits);
  }
}

// Where the low half is 0x8000 or more, the wire was rounded up; adding the low half as a signed number undoes it.
void join(std::span<const std::uint16_t> wire, std::span<const std::uint16_t> low, std::span<float> master) {
  assert(wire.size() == master.size() && low.size() == master.size());
  const std::uint16_t* const high_half = wire.data();
  const std::uint16_t* const low_half = low.data();
  float* const destination = master.data();
  const std::size_t size = master.size();
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) {
    const std::int32_t signed_low = static_cast<std::int16_t>(low_half[i]);
    const std::uint32_t bits =
        (static_cast<std::uint32_t>(high_half[i]) << 16) + static_cast<std::uint32_t>(signed_low);
    destination[i] = std::bit_cast<float>(bits);
  }
}

}  // namespace l2l::optimizers
