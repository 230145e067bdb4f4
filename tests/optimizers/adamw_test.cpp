#include "optimizers/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tests/optimizers/plain.h"

namespace l2l::optimizers {
namespace {

struct State {
  std::vector<float> master, moment1, moment2;
};

std::vector<float> random_values(std::size_t size, unsigned seed, float deviation) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(size);
  for (float& value : values) value = normal(generator);
  return values;
}

State random_state(std::size_t size, unsigned seed) {
  State state{random_values(size, seed, 1), random_values(size, seed + 1, 0.1f), random_values(size, seed + 2, 0.1f)};
  for (float& value : state.moment2) value *= value;
  return state;
}

AdamWSettings some_settings(std::uint64_t count) {
  AdamWSettings settings;
  settings.learning_rate = 0.01f;
  settings.weight_decay = 0.1f;
  return with_bias_correction(settings, count);
}

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(AdamW, FirstStepByHand) {
  AdamWSettings settings;
  settings.learning_rate = 0.1f;
  State state{{1.0f}, {0}, {0}};
  adamw(state.master, state.moment1, state.moment2, std::vector<float>{0.5f}, with_bias_correction(settings, 1));
  EXPECT_NEAR(state.moment1[0], 0.05, 1e-7);
  EXPECT_NEAR(state.moment2[0], 0.00025, 1e-8);  // 1 - 0.999f is 1.3e-5 off
  EXPECT_NEAR(state.master[0], 0.9, 1e-6);       // the corrected first step is lr * sign(g)
}

TEST(AdamW, DecayIsDecoupledFromTheGradient) {
  AdamWSettings settings;
  settings.learning_rate = 0.1f;
  settings.weight_decay = 0.5f;
  State state{{2.0f, 2.0f}, {0, 0}, {0, 0}};
  adamw(state.master, state.moment1, state.moment2, std::vector{0.0f, 4.0f}, with_bias_correction(settings, 1));
  EXPECT_FLOAT_EQ(state.master[0], 2.0f * 0.95f);
  EXPECT_NEAR(state.master[1], 2.0 * 0.95 - 0.1, 1e-6);
  EXPECT_EQ(state.moment1[0], 0.0f);
}

TEST(AdamW, ZeroGradientWithoutDecayChangesNothing) {
  AdamWSettings settings;
  settings.learning_rate = 0.1f;
  const std::vector<float> master = random_values(100, 3, 1);
  State state{master, std::vector<float>(100), std::vector<float>(100)};
  adamw(state.master, state.moment1, state.moment2, std::vector<float>(100), with_bias_correction(settings, 7));
  EXPECT_TRUE(equal_bits(state.master, master));
}

// Algorithm 2 of the paper, in double, over several steps.
TEST(AdamW, FollowsThePaperInDouble) {
  constexpr std::size_t kSize = 1000;
  State state = random_state(kSize, 1);
  std::vector<double> w(state.master.begin(), state.master.end()), m(state.moment1.begin(), state.moment1.end()),
      v(state.moment2.begin(), state.moment2.end());
  for (unsigned t = 1; t <= 10; ++t) {
    const std::vector<float> gradient = random_values(kSize, 100 + t, 0.3f);
    adamw(state.master, state.moment1, state.moment2, gradient, some_settings(t));
    const double beta1 = 0.9f, beta2 = 0.999f, rate = 0.01f, decay = 0.1f;
    for (std::size_t i = 0; i < kSize; ++i) {
      const double g = gradient[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      const double corrected1 = m[i] / (1 - std::pow(beta1, t)), corrected2 = v[i] / (1 - std::pow(beta2, t));
      w[i] = w[i] - rate * decay * w[i] - rate * corrected1 / (std::sqrt(corrected2) + 1e-8);
    }
  }
  for (std::size_t i = 0; i < kSize; ++i) {
    ASSERT_NEAR(state.master[i], w[i], 3e-6) << i;
    ASSERT_NEAR(state.moment1[i], m[i], 1e-6) << i;
    ASSERT_NEAR(state.moment2[i], v[i], 1e-6 * v[i] + 1e-9) << i;
  }
}

// The order of operations that optimizers/adamw.h states, one fp32 rounding each.
TEST(AdamW, RoundsAfterEachOperation) {
  State state = random_state(77, 5);
  State expected = state;
  const std::vector<float> gradient = random_values(77, 9, 0.3f);
  const AdamWSettings settings = some_settings(3);
  adamw(state.master, state.moment1, state.moment2, gradient, settings);
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    volatile float w = expected.master[i], m = expected.moment1[i], v = expected.moment2[i];
    volatile float keep = static_cast<float>(1 - 0.01f * static_cast<double>(0.1f));
    volatile float product = (1 - 0.9f) * gradient[i];
    m = std::fma(0.9f, m, product);
    product = (1 - 0.999f) * gradient[i];
    product = product * gradient[i];
    v = std::fma(0.999f, v, product);
    volatile float denominator = std::sqrt(v);
    const double root = std::sqrt(static_cast<double>(settings.correction2));
    denominator = denominator + static_cast<float>(static_cast<double>(1e-8f) * root);
    volatile float step = static_cast<float>(static_cast<double>(0.01f) * root / settings.correction1);
    step = step * m;
    step = step / denominator;
    w = std::fma(keep, w, -step);
    ASSERT_EQ(state.master[i], w) << i;
    ASSERT_EQ(state.moment1[i], m) << i;
    ASSERT_EQ(state.moment2[i], v) << i;
  }
}

TEST(AdamW, AnyPartitionGivesTheSameBits) {
  constexpr std::size_t kSize = 70;
  const State start = random_state(kSize, 11);
  const std::vector<float> gradient = random_values(kSize, 12, 0.3f);
  State whole = start;
  adamw(whole.master, whole.moment1, whole.moment2, gradient, some_settings(2));
  for (std::size_t cut = 0; cut <= kSize; ++cut) {
    State parts = start;
    for (const auto& [begin, count] : {std::pair{std::size_t{0}, cut}, std::pair{cut, kSize - cut}}) {
      adamw(std::span(parts.master).subspan(begin, count), std::span(parts.moment1).subspan(begin, count),
            std::span(parts.moment2).subspan(begin, count), std::span(gradient).subspan(begin, count),
            some_settings(2));
    }
    ASSERT_TRUE(equal_bits(parts.master, whole.master)) << cut;
    ASSERT_TRUE(equal_bits(parts.moment1, whole.moment1)) << cut;
    ASSERT_TRUE(equal_bits(parts.moment2, whole.moment2)) << cut;
  }
}

TEST(AdamW, BiasCorrectionCountsFromOne) {
  EXPECT_FLOAT_EQ(some_settings(1).correction1, 0.1f);
  EXPECT_NEAR(some_settings(1).correction2, 0.001, 1e-7);
  EXPECT_NEAR(some_settings(2).correction1, 0.19, 1e-7);
  EXPECT_EQ(some_settings(1'000'000).correction1, 1.0f);
  EXPECT_EQ(some_settings(1'000'000).correction2, 1.0f);
}

}  // namespace
}  // namespace l2l::optimizers
