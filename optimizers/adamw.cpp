#include "optimizers/adamw.h"

#include <cassert>
#include <cmath>
#include <cstddef>

namespace l2l::optimizers {

AdamWSettings with_bias_correction(AdamWSettings settings, std::uint64_t count) {
  const double t = static_cast<double>(count);
  settings.correction1 = static_cast<float>(1 - std::pow(static_cast<double>(settings.beta1), t));
  settings.correction2 = static_cast<float>(1 - std::pow(static_cast<double>(settings.beta2), t));
  return settings;
}

// The order of operations is that of PyTorch's single-tensor AdamW. This file is compiled without contraction of a
// product and a sum into one operation (meson.build): the vector body and the scalar remainder then give equal bits.
void adamw(std::span<float> master, std::span<float> moment1, std::span<float> moment2, std::span<const float> gradient,
           const AdamWSettings& settings) {
  assert(moment1.size() == master.size() && moment2.size() == master.size() && gradient.size() == master.size());
  const double learning_rate = settings.learning_rate;
  const float keep = static_cast<float>(1 - learning_rate * static_cast<double>(settings.weight_decay));
  const float beta1 = settings.beta1, beta2 = settings.beta2;
  const float rest1 = 1 - beta1, rest2 = 1 - beta2;
  const float step_size = static_cast<float>(learning_rate / static_cast<double>(settings.correction1));
  const float correction = static_cast<float>(std::sqrt(static_cast<double>(settings.correction2)));
  const float epsilon = settings.epsilon;
  float* const w = master.data();
  float* const m = moment1.data();
  float* const v = moment2.data();
  const float* const g = gradient.data();
  const std::size_t size = master.size();
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) {
    m[i] = beta1 * m[i] + rest1 * g[i];
    v[i] = beta2 * v[i] + rest2 * g[i] * g[i];
    w[i] = keep * w[i] - step_size * m[i] / (std::sqrt(v[i]) / correction + epsilon);
  }
}

}  // namespace l2l::optimizers
