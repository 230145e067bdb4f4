#include "optimizers/lamb.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>

#include "optimizers/squares.h"

namespace l2l::optimizers {
namespace {

// r of one element. Compiled without contraction (meson.build): both passes give the same bits.
struct Direction {
  float scale, root, epsilon, decay;

  explicit Direction(const LambSettings& settings)
      : scale(static_cast<float>(1 / static_cast<double>(settings.correction1))),
        root(static_cast<float>(std::sqrt(static_cast<double>(settings.correction2)))),
        epsilon(settings.epsilon),
        decay(settings.weight_decay) {}

  float of(float w, float m, float v) const { return scale * m / (std::sqrt(v) / root + epsilon) + decay * w; }
};

}  // namespace

LambSettings with_bias_correction(LambSettings settings, std::uint64_t count) {
  const double t = static_cast<double>(count);
  settings.correction1 = static_cast<float>(1 - std::pow(static_cast<double>(settings.beta1), t));
  settings.correction2 = static_cast<float>(1 - std::pow(static_cast<double>(settings.beta2), t));
  return settings;
}

double trust_ratio(const LambSquares& squares) {
  if (squares.weights == 0 || squares.direction == 0) return 1;
  return std::sqrt(squares.weights) / std::sqrt(squares.direction);
}

LambSquares lamb_moments(std::span<const float> master, std::span<float> moment1, std::span<float> moment2,
                         std::span<const float> gradient, const LambSettings& settings) {
  assert(moment1.size() == master.size() && moment2.size() == master.size() && gradient.size() == master.size());
  constexpr std::size_t kPiece = 512;
  const Direction direction(settings);
  const float beta1 = settings.beta1, beta2 = settings.beta2;
  const float rest1 = 1 - beta1, rest2 = 1 - beta2;
  std::array<float, kPiece> buffer;
  LambSquares squares;
  for (std::size_t begin = 0; begin < master.size(); begin += kPiece) {
    const std::size_t count = std::min(kPiece, master.size() - begin);
    const float* const w = master.data() + begin;
    const float* const g = gradient.data() + begin;
    float* const m = moment1.data() + begin;
    float* const v = moment2.data() + begin;
    float* const r = buffer.data();
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      m[i] = beta1 * m[i] + rest1 * g[i];
      v[i] = beta2 * v[i] + rest2 * g[i] * g[i];
      r[i] = direction.of(w[i], m[i], v[i]);
    }
    squares.weights += sum_of_squares({w, count});
    squares.direction += sum_of_squares({r, count});
  }
  return squares;
}

void lamb_apply(std::span<float> master, std::span<const float> moment1, std::span<const float> moment2, double ratio,
                const LambSettings& settings) {
  assert(moment1.size() == master.size() && moment2.size() == master.size());
  const Direction direction(settings);
  const float step = static_cast<float>(static_cast<double>(settings.learning_rate) * ratio);
  float* const w = master.data();
  const float* const m = moment1.data();
  const float* const v = moment2.data();
  const std::size_t size = master.size();
#pragma omp simd
  for (std::size_t i = 0; i < size; ++i) w[i] -= step * direction.of(w[i], m[i], v[i]);
}

}  // namespace l2l::optimizers
