// Random bits of dropout on the device: those of the host (device/kernels/random_words.h). Element i of a tensor
// uses word i % 4 of Philox block i / 4.
#pragma once

#include "core/philox.h"
#include "device/device.h"
#include "device/kernels/common/floats.cuh"

namespace l2l::device::cuda {

// Which elements a dropout op keeps in one launch (word >= threshold), and the factor of those that it keeps.
struct DropoutMask {
  RngKey key;
  std::uint32_t threshold = 0;
  float scale = 1;

  DropoutMask() = default;
  __device__ DropoutMask(const LaunchParameters* parameters, std::uint32_t rng_op, float probability)
      : key{parameters->seed, parameters->step, parameters->layer, parameters->microbatch, rng_op},
        threshold(parameters->training ? dropout_threshold(probability) : 0),
        scale(parameters->training ? 1.0f / (1.0f - probability) : 1.0f) {}
  // Nothing is dropped, and nothing scaled.
  __device__ bool keeps_all() const { return threshold == 0; }
};

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

// Throws BadInput when the index of an element's Philox block does not fit 32 bits.
inline void require_random_elements(std::int64_t elements) {
  if (elements <= std::int64_t{1} << 34) return;
  throw BadInput(std::to_string(elements) +
                 " random numbers per microbatch, at most 2^34: use a smaller batch.micro_batch");
}

}  // namespace l2l::device::cuda
