// A checksum of bytes in memory, cheap enough to be taken twice in every update: the sum of the bytes' 32-bit words in
// sixteen lanes, and the sum of those sums (Fletcher, "An arithmetic checksum for serial transmissions", 1982), both
// modulo 2^32. The latter is rotated before each word: else equal words that all change in the same way, such as 1.0 to
// 0.0, would cancel where there are many. Every single flipped bit changes it; any other change is seen unless the two
// sums of all lanes stay what they are, or by a chance of about 2^-64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace l2l::optimizers {

// The running sums of one sequence of bytes, by lane. A value.
struct alignas(64) ChecksumLanes {
  std::uint32_t sum[16] = {};
  std::uint32_t sum_of_sums[16] = {};

  // Of all bytes added so far; another order of the bytes has another one.
  std::uint64_t value() const;
};

// Adds bytes; a last row of fewer than 64 is filled up with zeros. The same bits in every instruction set.
using ChecksumKernel = void (*)(ChecksumLanes& lanes, const void* data, std::size_t bytes);
// Of the instruction set of kernels() (optimizers/kernels.h).
ChecksumKernel checksum_kernel();
// Of the instruction set called `name`, which this build has.
ChecksumKernel checksum_kernel_of(const char* name);

}  // namespace l2l::optimizers
