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
    const PhiloxBlock words = philox(mask.key, static_cast<std::uint32_t>(first / 4));
    const std::uint32_t word = words[static_cast<std::size_t>(first % 4)];
    floats[0] = word >= mask.threshold ? __fmul_rn(floats[0], mask.scale) : 0.0f;
  } else {
    static_assert(Count % 4 == 0);
#pragma unroll
    for (int block = 0; block < Count / 4; ++block) {
      const PhiloxBlock words = philox(mask.key, static_cast<std::uint32_t>(first / 4 + block));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& value = floats[4 * block + i];
        value = words[static_cast<std::size_t>(i)] >= mask.threshold ? __fmul_rn(value, mask.scale) : 0.0f;
      }
    }
  }
  return floats;
}

}  // namespace l2l::device::cuda
