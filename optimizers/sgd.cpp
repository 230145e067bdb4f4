#include "optimizers/sgd.h"

#include <cassert>
#include <cstddef>

namespace l2l::optimizers {

void sgd(std::span<float> master, std::span<float> buffer, std::span<const float> gradient,
         const SgdSettings& settings) {
  assert(buffer.size() == master.size() && gradient.size() == master.size());
  const float rate = settings.learning_rate, momentum = settings.momentum, decay = settings.weight_decay;
  float* const w = master.data();
  float* const b = buffer.data();
  const float* const g = gradient.data();
  const std::size_t size = master.size();
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) {
    b[i] = momentum * b[i] + (g[i] + decay * w[i]);
    w[i] -= rate * b[i];
  }
}

}  // namespace l2l::optimizers
