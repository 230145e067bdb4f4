// Which elements dropout keeps, on the host and on CUDA: element i of a tensor, if word i % 4 of Philox block i / 4
// (core/philox.h) is at or above a threshold.
#pragma once

#include <string>
#include <string_view>

#include "core/philox.h"
#include "device/device.h"
#include "l2l/errors.h"

namespace l2l::device::kernels {

// Of one dropout op in one launch. Without parameters it keeps everything.
struct DropoutMask {
  RngKey key;
  std::uint32_t threshold = 0;
  float scale = 1;  // factor of the elements that are kept

  constexpr DropoutMask() = default;
  constexpr DropoutMask(const LaunchParameters& parameters, std::uint32_t rng_op, float probability)
      : key{parameters.seed, parameters.step, parameters.layer, parameters.microbatch, rng_op},
        threshold(parameters.training ? dropout_threshold(probability) : 0),
        scale(parameters.training ? 1.0f / (1.0f - probability) : 1.0f) {}
  // Nothing is dropped, and nothing scaled.
  constexpr bool keeps_all() const { return threshold == 0; }
};

// Throws BadInput that names `op` when the index of an element's Philox block does not fit 32 bits.
inline void require_random_elements(std::int64_t elements, std::string_view op) {
  if (elements <= std::int64_t{1} << 34) return;
  throw BadInput(std::string(op) + ": " + std::to_string(elements) +
                 " random numbers per microbatch, at most 2^34: use a smaller batch.micro_batch");
}

}  // namespace l2l::device::kernels
