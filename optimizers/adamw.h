// AdamW (Loshchilov & Hutter, ICLR 2019): Adam with decoupled weight decay, on plain host arrays.
#pragma once

#include <cstdint>
#include <span>

namespace l2l::optimizers {

struct AdamWSettings {
  float learning_rate = 0;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0;     // 0 for parameters without decay (norms, biases)
  float correction1 = 1;      // 1 - beta1^t, t = this layer's own update count, from 1
  float correction2 = 1;      // 1 - beta2^t
};

// Fills in the bias corrections (computed in double) for update number `count`, from 1.
AdamWSettings with_bias_correction(AdamWSettings settings, std::uint64_t count);

// One update of `master` in place, fp32: w -= lr * decay * w; m, v as in Adam; w -= (lr / correction1) * m /
// (sqrt(v) / sqrt(correction2) + epsilon). All spans have the same length. Element-wise, so any partition gives the
// same bits.
void adamw(std::span<float> master, std::span<float> moment1, std::span<float> moment2, std::span<const float> gradient,
           const AdamWSettings& settings);

}  // namespace l2l::optimizers
