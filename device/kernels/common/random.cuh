// Random bits of dropout on the device: those of the host (device/kernels/common/random_words.h). Element i of a tensor
// uses word i % 4 of Philox block i / 4.
#pragma once

#include "core/philox.h"
#include "device/device.h"
#include "device/kernels/common/floats.cuh"

namespace l2l::device::cuda {

// Who survives a dropout op in one launch, and by how much survivors grow.
struct Survival {
  RngKey key;
  std::uint32_t threshold = 0;
  float scale = 1;

  Survival() = default;
  __device__ Survival(const LaunchParameters* parameters, std::uint32_t rng_op, float probability)
      : key{parameters->seed, parameters->step, parameters->layer, parameters->microbatch, rng_op},
        threshold(parameters->training ? dropout_threshold(probability) : 0),
        scale(parameters->training ? 1.0f / (1.0f - probability) : 1.0f) {}
  // Nothing is dropped, and nothing scaled.
  __device__ bool always() const { return threshold == 0; }
};

// Elements [first, first + Count) of a tensor after dropout, not yet rounded to its dtype. `first` is a multiple of
// Count; Count is 1 or a multiple of 4.
template <int Count>
__device__ inline Floats<Count> dropped(const Survival& survival, std::int64_t first, Floats<Count> floats) {
  if (survival.always()) return floats;
  if constexpr (Count == 1) {
    const PhiloxBlock words = philox(survival.key, static_cast<std::uint32_t>(first / 4));
    const std::uint32_t word = words[static_cast<std::size_t>(first % 4)];
    floats[0] = word >= survival.threshold ? __fmul_rn(floats[0], survival.scale) : 0.0f;
  } else {
    static_assert(Count % 4 == 0);
#pragma unroll
    for (int block = 0; block < Count / 4; ++block) {
      const PhiloxBlock words = philox(survival.key, static_cast<std::uint32_t>(first / 4 + block));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& value = floats[4 * block + i];
        value = words[static_cast<std::size_t>(i)] >= survival.threshold ? __fmul_rn(value, survival.scale) : 0.0f;
      }
    }
  }
  return floats;
}

// The index of an element's Philox block must fit the counter's 32 bits. Throws BadInput.
inline void require_random_elements(std::int64_t elements) {
  if (elements <= std::int64_t{1} << 34) return;
  throw BadInput(std::to_string(elements) +
                 " random numbers per microbatch, at most 2^34: use a smaller batch.micro_batch");
}

}  // namespace l2l::device::cuda
