// Which probabilities dropout keeps: the host's bits (core/philox.h). One Philox block decides four consecutive keys
// of a query, so lanes that hold neighbouring elements share the work.
#pragma once

#include "core/philox.h"
#include "device/device.h"
#include "device/kernels/attention_problem.h"

namespace l2l::device::cuda {

// Immutable; one per thread. Without kDropout it costs nothing, and keeps everything.
template <bool kDropout>
class AttentionDropout {
 public:
  __device__ AttentionDropout(const AttentionProblem& problem, const LaunchParameters* parameters) {
    if (!kDropout || problem.threshold == 0 || !parameters->training) return;
    key_ = {parameters->seed, parameters->step, parameters->layer, parameters->microbatch, problem.rng_op};
    threshold_ = problem.threshold;
    scale_ = problem.kept_scale;
    aligned_ = problem.sequence % 4 == 0;
  }

  __device__ bool active() const { return kDropout && threshold_ != 0; }
  // Factor of the probabilities that are kept; 1 without dropout.
  __device__ float scale() const { return kDropout ? scale_ : 1.0f; }
  // Whether each query's keys begin with a Philox block: only then may blocks be shared.
  __device__ bool aligned() const { return aligned_; }

  __device__ bool keeps(std::int64_t element) const {
    const PhiloxBlock block = philox(key_, static_cast<std::uint32_t>(element / 4));
    const int word = static_cast<int>(element % 4);
    const std::uint32_t low = word == 0 ? block[0] : block[1], high = word == 2 ? block[2] : block[3];
    return (word < 2 ? low : high) >= threshold_;
  }

  // Bit k: whether element 4 * (first / 4) + k is kept.
  __device__ std::uint32_t keeps_block(std::int64_t first) const {
    const PhiloxBlock block = philox(key_, static_cast<std::uint32_t>(first / 4));
    return (block[0] >= threshold_ ? 1u : 0u) | (block[1] >= threshold_ ? 2u : 0u) |
           (block[2] >= threshold_ ? 4u : 0u) | (block[3] >= threshold_ ? 8u : 0u);
  }

 private:
  RngKey key_;
  std::uint32_t threshold_ = 0;
  float scale_ = 1;
  bool aligned_ = false;
};

}  // namespace l2l::device::cuda
