// Split master: an fp32 weight kept as its bf16 wire, rounded to nearest with ties away, and the low 16 bits that make
// it exact again (DESIGN.md, Precision). Together they are the fp32 master, bit for bit.
#pragma once

#include <cstdint>
#include <span>

namespace l2l::optimizers {

// wire[i] = (bits + 0x8000) >> 16, low[i] = bits & 0xffff.
void split(std::span<const float> master, std::span<std::uint16_t> wire, std::span<std::uint16_t> low);

// The inverse: exact for every finite value whose rounding does not overflow to infinity.
void join(std::span<const std::uint16_t> wire, std::span<const std::uint16_t> low, std::span<float> master);

}  // namespace l2l::optimizers
