// LAMB (You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020, algorithm 2):
// Adam's direction, weight decay inside it, scaled per tensor by the ratio of the norms of weights and direction.
//
//   r = (m / correction1) / (sqrt(v / correction2) + epsilon) + decay * w
//   w -= learning_rate * trust_ratio(|w|, |r|) * r
//
// In two passes over a tensor, since the norms are needed first. The second pass makes r again from m, v and w, with
// the same bits, so that none is stored.
#pragma once

#include <cstdint>
#include <span>

namespace l2l::optimizers {

struct LambSettings {
  float learning_rate = 0;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-6f;
  float weight_decay = 0;  // 0 for parameters without decay (norms, biases)
  float correction1 = 1;   // 1 - beta1^t, t = this layer's own update count, from 1
  float correction2 = 1;   // 1 - beta2^t
};

// Fills in the bias corrections (computed in double) for update number `count`, from 1.
LambSettings with_bias_correction(LambSettings settings, std::uint64_t count);

// Sums over the elements of a tensor, or of a part of it; those of a tensor are the sums of those of its parts.
struct LambSquares {
  double weights = 0;    // of w^2
  double direction = 0;  // of r^2
};

// |w| / |r|; 1 where either is 0.
double trust_ratio(const LambSquares& squares);

// The first pass over a part of a tensor, fp32: m and v as in Adam, in place; returns the part's squares, summed in
// double in an order that follows from its length alone. All spans have the same length.
LambSquares lamb_moments(std::span<const float> master, std::span<float> moment1, std::span<float> moment2,
                         std::span<const float> gradient, const LambSettings& settings);

// The second pass, with the whole tensor's ratio: w -= learning_rate * ratio * r. Element-wise.
void lamb_apply(std::span<float> master, std::span<const float> moment1, std::span<const float> moment2, double ratio,
                const LambSettings& settings);

}  // namespace l2l::optimizers
