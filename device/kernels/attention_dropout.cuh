// Which probabilities dropout keeps: the host's bits. Where a Philox block decides 16 consecutive keys of a query,
// lanes that hold some of these share the work.
#pragma once

#include "device/device.h"
#include "device/kernels/attention_problem.h"
#include "device/kernels/common/dropout.h"

namespace l2l::device::cuda {

// Immutable; one per thread. Without kDropout it costs nothing, and keeps everything.
template <bool kDropout>
class AttentionDropout {
 public:
  __device__ AttentionDropout(const AttentionProblem& problem, const LaunchParameters* parameters)
      : parameters_(parameters), rng_op_(problem.rng_op) {
    if (!kDropout || problem.probability == 0) return;
    const kernels::DropoutMask mask(*parameters, rng_op_, problem.probability);
    threshold_ = mask.threshold;
    scale_ = mask.scale;
    bytes_ = mask.bytes;
    shares_ = bytes_ && problem.sequence % 16 == 0;
  }

  __device__ bool active() const { return kDropout && threshold_ != 0; }
  // Factor of the probabilities that are kept; 1 without dropout.
  __device__ float scale() const { return kDropout ? scale_ : 1.0f; }
  // Whether each query's keys begin with a block of 16: only then may blocks be shared.
  __device__ bool shares() const { return shares_; }

  __device__ bool keeps(std::int64_t element) const {
    kernels::DropoutMask mask;
    mask.key = key();
    mask.threshold = threshold_;
    mask.bytes = bytes_;
    return mask.keeps(mask.block_of(element), element);
  }

  // Bit k: whether element `first` + k is kept, of 16 in one block. Needs shares().
  __device__ std::uint32_t keeps_block(std::int64_t first) const {
    const PhiloxBlock block = philox(key(), static_cast<std::uint32_t>(first / 16));
    std::uint32_t kept = 0;
#pragma unroll
    for (int word = 0; word < 4; ++word) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::uint32_t byte = block[static_cast<std::size_t>(word)] >> (8 * i) & 255u;
        kept |= (byte >= threshold_ ? 1u : 0u) << (4 * word + i);
      }
    }
    return kept;
  }

 private:
  // Read anew for each block: registers are scarcer.
  __device__ RngKey key() const {
    return {parameters_->seed, parameters_->step, parameters_->layer, parameters_->microbatch, rng_op_};
  }

  const LaunchParameters* const parameters_;
  const std::uint32_t rng_op_;
  std::uint32_t threshold_ = 0;
  float scale_ = 1;
  bool bytes_ = false, shares_ = false;
};

}  // namespace l2l::device::cuda
