// Dropout on the device, by the same random bits as on the host.
#pragma once

#include "device/kernels/common/dropout.h"
#include "device/kernels/common/floats.cuh"

namespace l2l::device::cuda {

using kernels::DropoutMask;

// Elements [first, first + Count) of a tensor after dropout, not yet rounded to its dtype. `first` is a multiple of
// Count; Count is 1 or a multiple of 4.
template <int Count>
__device__ inline Floats<Count> dropped(const DropoutMask& mask, std::int64_t first, Floats<Count> floats) {
  if (mask.keeps_all()) return floats;
  if constexpr (Count == 1) {
    floats[0] = mask.keeps(mask.block_of(first), first) ? __fmul_rn(floats[0], mask.scale) : 0.0f;
  } else {
    static_assert(Count % 4 == 0);
    const auto four = static_cast<std::uint32_t>(first / 4);
    PhiloxBlock block;
    std::uint32_t kept = 0;
#pragma unroll 1  // so that the code of a block is there once
    for (int i = 0; i < Count / 4; ++i) {
      if (i == 0 || !mask.bytes || (four + i) % 4 == 0) block = mask.block_of_four(four + i);
      kept |= mask.keeps_four(block, four + i) << (4 * i);
    }
#pragma unroll
    for (int i = 0; i < Count; ++i) floats[i] = kept >> i & 1u ? __fmul_rn(floats[i], mask.scale) : 0.0f;
  }
  return floats;
}

}  // namespace l2l::device::cuda
