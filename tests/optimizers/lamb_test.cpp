#include "optimizers/lamb.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/optimizers/plain.h"
#include "tests/optimizers/reference.h"

namespace l2l::optimizers {
namespace {

std::vector<float> normal_values(std::size_t size, unsigned seed, float deviation) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = deviation * normal(generator);
  return values;
}

struct Tensor {
  std::vector<float> w, m, v;
  explicit Tensor(std::vector<float> initial) : w(std::move(initial)), m(w.size()), v(w.size()) {}
};

// One update; the squares are summed over parts that end at `cuts`.
void step(Tensor& tensor, const std::vector<float>& gradient, const LambSettings& settings,
          std::vector<std::size_t> cuts = {}) {
  cuts.push_back(tensor.w.size());
  LambSquares sum;
  for (std::size_t i = 0, begin = 0; i < cuts.size(); begin = cuts[i++]) {
    const auto part = [&](auto& values) { return std::span(values).subspan(begin, cuts[i] - begin); };
    const LambSquares squares = lamb_moments(part(tensor.w), part(tensor.m), part(tensor.v), part(gradient), settings);
    sum.weights += squares.weights;
    sum.direction += squares.direction;
  }
  lamb_apply(tensor.w, tensor.m, tensor.v, trust_ratio(sum), settings);
}

LambSettings settings_of(float decay) {
  LambSettings settings;
  settings.learning_rate = 0.01f;
  settings.weight_decay = decay;
  return settings;
}

// By hand: the corrected first direction is sign(g), plus decay * w; |w| = 5, r = (1 + 0.3, 1 + 0.4).
TEST(Lamb, FirstStepByHand) {
  Tensor tensor({3, 4});
  step(tensor, {0.5f, 2.0f}, with_bias_correction(settings_of(0.1f), 1));
  const double ratio = 5 / std::sqrt(1.3 * 1.3 + 1.4 * 1.4);
  EXPECT_NEAR(tensor.w[0], 3 - 0.01 * ratio * 1.3, 1e-6);
  EXPECT_NEAR(tensor.w[1], 4 - 0.01 * ratio * 1.4, 1e-6);
}

TEST(Lamb, TrustRatioIsOneWhereANormIsZero) {
  EXPECT_EQ(trust_ratio({0, 4}), 1);
  EXPECT_EQ(trust_ratio({4, 0}), 1);
  EXPECT_EQ(trust_ratio({9, 4}), 1.5);
  Tensor zeros(std::vector<float>(3));
  step(zeros, {1, -1, 2}, with_bias_correction(settings_of(0), 1));
  EXPECT_NEAR(zeros.w[0], -0.01, 1e-7);
}

// Several tensors, one of them zeros at first, one longer than a chunk of the parameter server.
TEST(Lamb, FollowsThePaperInDoubleOverAHundredSteps) {
  struct Case {
    std::size_t size;
    float deviation, decay;
  };
  for (const Case& c : {Case{1, 1, 0.1f}, Case{77, 0, 0}, Case{513, 0.02f, 0.1f}, Case{5000, 1, 0.01f}}) {
    const LambSettings settings = settings_of(c.decay);
    Tensor tensor(normal_values(c.size, 1, c.deviation));
    testing::ReferenceTensor expected(tensor.w);
    for (unsigned t = 1; t <= 100; ++t) {
      const std::vector<float> gradient = normal_values(c.size, 100 + t, 0.3f);
      step(tensor, gradient, with_bias_correction(settings, t), {c.size / 3, c.size / 2});
      reference_step(expected, {gradient.begin(), gradient.end()}, settings, settings.learning_rate, t);
    }
    EXPECT_LT(testing::relative_error(tensor.w, expected.w), 1e-5) << c.size;
    EXPECT_LT(testing::relative_error(tensor.m, expected.m), 1e-5) << c.size;
    EXPECT_LT(testing::relative_error(tensor.v, expected.v), 1e-5) << c.size;
  }
}

// Negative control: LAMB without its ratio, which is Adam, is far from the reference.
TEST(Lamb, WithoutTheTrustRatioIsFarOff) {
  const LambSettings settings = settings_of(0.1f);
  Tensor tensor(normal_values(513, 1, 0.02f));
  testing::ReferenceTensor expected(tensor.w);
  for (unsigned t = 1; t <= 100; ++t) {
    const std::vector<float> gradient = normal_values(513, 100 + t, 0.3f);
    lamb_moments(tensor.w, tensor.m, tensor.v, gradient, with_bias_correction(settings, t));
    lamb_apply(tensor.w, tensor.m, tensor.v, 1, with_bias_correction(settings, t));
    reference_step(expected, {gradient.begin(), gradient.end()}, settings, settings.learning_rate, t);
  }
  EXPECT_GT(testing::relative_error(tensor.w, expected.w), 0.1);
}

// The second pass makes the direction again: what it subtracts has exactly the norm that the first one measured, and
// any partition of it gives the same bits.
TEST(Lamb, AnyPartitionOfTheSecondPassGivesTheSameBits) {
  constexpr std::size_t kSize = 70;
  const LambSettings settings = with_bias_correction(settings_of(0.1f), 3);
  Tensor whole(normal_values(kSize, 1, 1));
  lamb_moments(whole.w, whole.m, whole.v, normal_values(kSize, 2, 0.3f), settings);
  const Tensor start = whole;
  lamb_apply(whole.w, whole.m, whole.v, 0.7, settings);
  for (std::size_t cut = 0; cut <= kSize; ++cut) {
    Tensor parts = start;
    for (const auto& [begin, count] : {std::pair{std::size_t{0}, cut}, std::pair{cut, kSize - cut}}) {
      lamb_apply(std::span(parts.w).subspan(begin, count), std::span(parts.m).subspan(begin, count),
                 std::span(parts.v).subspan(begin, count), 0.7, settings);
    }
    ASSERT_EQ(std::memcmp(parts.w.data(), whole.w.data(), kSize * sizeof(float)), 0) << cut;
  }
}

}  // namespace
}  // namespace l2l::optimizers
