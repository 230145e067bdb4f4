// LAMB and SGD on one tensor in float64, written from their papers and PyTorch's documentation, element by element: the
// oracle of tests/optimizers and tests/eps. fp32 settings are taken as they are (0.999f is not 0.999).
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "optimizers/optimizer.h"

namespace l2l::testing {

struct ReferenceTensor {
  std::vector<double> w, m, v;
  bool decay = true;

  explicit ReferenceTensor(const std::vector<float>& initial, bool decays = true)
      : w(initial.begin(), initial.end()), m(initial.size()), v(initial.size()), decay(decays) {}
};

inline double norm_of(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// You et al. 2020, algorithm 2, with the identity as phi and no layer-wise adaptation where there is no decay; t
// from 1.
inline void reference_step(ReferenceTensor& tensor, const std::vector<double>& gradient,
                           const optimizers::LambSettings& settings, double learning_rate, unsigned t) {
  const double beta1 = settings.beta1, beta2 = settings.beta2, decay = tensor.decay ? settings.weight_decay : 0;
  std::vector<double> r(tensor.w.size());
  for (std::size_t i = 0; i < r.size(); ++i) {
    tensor.m[i] = beta1 * tensor.m[i] + (1 - beta1) * gradient[i];
    tensor.v[i] = beta2 * tensor.v[i] + (1 - beta2) * gradient[i] * gradient[i];
    const double corrected_m = tensor.m[i] / (1 - std::pow(beta1, t));
    const double corrected_v = tensor.v[i] / (1 - std::pow(beta2, t));
    r[i] = corrected_m / (std::sqrt(corrected_v) + settings.epsilon) + decay * tensor.w[i];
  }
  const double weight_norm = norm_of(tensor.w), direction_norm = norm_of(r);
  const double ratio = tensor.decay && weight_norm > 0 && direction_norm > 0 ? weight_norm / direction_norm : 1;
  for (std::size_t i = 0; i < r.size(); ++i) tensor.w[i] -= learning_rate * ratio * r[i];
}

// torch.optim.SGD with momentum, without dampening and Nesterov.
inline void reference_step(ReferenceTensor& tensor, const std::vector<double>& gradient,
                           const optimizers::SgdSettings& settings, double learning_rate, unsigned t) {
  const double decay = tensor.decay ? settings.weight_decay : 0;
  for (std::size_t i = 0; i < tensor.w.size(); ++i) {
    const double g = gradient[i] + decay * tensor.w[i];
    tensor.m[i] = t == 1 ? g : settings.momentum * tensor.m[i] + g;
    tensor.w[i] -= learning_rate * tensor.m[i];
  }
}

// |actual - expected| / |expected|, as vectors.
template <typename Actual>
double relative_error(const Actual& actual, const std::vector<double>& expected) {
  std::vector<double> difference(expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) difference[i] = static_cast<double>(actual[i]) - expected[i];
  return norm_of(difference) / norm_of(expected);
}

}  // namespace l2l::testing
