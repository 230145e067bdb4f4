// Stochastic gradient descent with momentum, in PyTorch's form, on plain host arrays.
#pragma once

#include <span>

namespace l2l::optimizers {

struct SgdSettings {
  float learning_rate = 0;
  float momentum = 0.9f;   // in [0, 1); 0: plain gradient descent
  float weight_decay = 0;  // 0 for parameters without decay (norms, biases)
};

// One update of `master` in place, fp32: b = momentum * b + (g + decay * w); w -= learning_rate * b. `buffer` starts as
// zeros. All spans have the same length. Element-wise, so any partition gives the same bits.
void sgd(std::span<float> master, std::span<float> buffer, std::span<const float> gradient,
         const SgdSettings& settings);

}  // namespace l2l::optimizers
