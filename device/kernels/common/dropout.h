// Which elements dropout keeps, on the host and on CUDA: those whose random bits (core/dropout.h) are at or above a
// threshold.
#pragma once

#include <string>
#include <string_view>

#include "core/dropout.h"
#include "device/device.h"
#include "l2l/errors.h"

namespace l2l::device::kernels {

// Of one dropout op in one launch. Without parameters it keeps everything.
struct DropoutMask {
  RngKey key;
  std::uint32_t threshold = 0;
  bool bytes = false;  // whether bytes decide; else words
  float scale = 1;     // factor of the elements that are kept

  constexpr DropoutMask() = default;
  constexpr DropoutMask(const LaunchParameters& parameters, std::uint32_t rng_op, float probability)
      : key{parameters.seed, parameters.step, parameters.layer, parameters.microbatch, rng_op} {
    if (!parameters.training) return;
    if (parameters.dropout_masks == DropoutMasks::bytes) threshold = dropout_byte_threshold(probability);
    bytes = threshold > 0;
    if (!bytes) threshold = dropout_threshold(probability);
    scale = bytes ? 256.0f / static_cast<float>(256 - threshold) : 1.0f / (1.0f - probability);
  }
  // Nothing is dropped, and nothing scaled.
  constexpr bool keeps_all() const { return threshold == 0; }

  // Elements that one Philox block decides.
  constexpr int per_block() const { return bytes ? 16 : 4; }
  constexpr PhiloxBlock block_of(std::int64_t element) const {
    return philox(key, static_cast<std::uint32_t>(bytes ? element / 16 : element / 4));
  }
  // `block`: that of the element.
  constexpr bool keeps(const PhiloxBlock& block, std::int64_t element) const {
    const int i = static_cast<int>(element % 16);
    return (bytes ? word_of(block, i / 4) >> (8 * (i % 4)) & 255u : word_of(block, i % 4)) >= threshold;
  }
  // Elements 4 `four` to 4 `four` + 3.
  constexpr PhiloxBlock block_of_four(std::uint32_t four) const { return philox(key, bytes ? four / 4 : four); }
  // Bit i: whether the i-th of them is kept.
  constexpr std::uint32_t keeps_four(const PhiloxBlock& block, std::uint32_t four) const {
    const std::uint32_t word = word_of(block, static_cast<int>(four % 4));
    std::uint32_t kept = 0;
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t drawn = bytes ? word >> (8 * i) & 255u : block[static_cast<std::size_t>(i)];
      kept |= (drawn >= threshold ? 1u : 0u) << i;
    }
    return kept;
  }
};

// Throws BadInput that names `op` when the index of an element's Philox block does not fit 32 bits.
inline void require_random_elements(std::int64_t elements, std::string_view op) {
  if (elements <= std::int64_t{1} << 34) return;
  throw BadInput(std::string(op) + ": " + std::to_string(elements) +
                 " random numbers per microbatch, at most 2^34: use a smaller batch.micro_batch");
}

}  // namespace l2l::device::kernels
