#include "optimizers/sgd.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/optimizers/plain.h"
#include "tests/optimizers/reference.h"

namespace l2l::optimizers {
namespace {

std::vector<float> random_values(std::size_t size, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(generator);
  return values;
}

TEST(Sgd, TwoStepsByHand) {
  const SgdSettings settings{.learning_rate = 0.1f, .momentum = 0.5f, .weight_decay = 0.25f};
  std::vector<float> w = {2}, buffer = {0};
  sgd(w, buffer, std::vector{1.0f}, settings);  // b = 1 + 0.5
  EXPECT_FLOAT_EQ(buffer[0], 1.5f);
  EXPECT_FLOAT_EQ(w[0], 1.85f);
  sgd(w, buffer, std::vector{-1.0f}, settings);  // b = 0.75 - 1 + 0.4625
  EXPECT_FLOAT_EQ(buffer[0], 0.2125f);
  EXPECT_FLOAT_EQ(w[0], 1.82875f);
}

TEST(Sgd, FollowsPyTorchsFormulaInDoubleOverAHundredSteps) {
  for (const float momentum : {0.0f, 0.9f}) {
    const SgdSettings settings{.learning_rate = 0.01f, .momentum = momentum, .weight_decay = 0.1f};
    std::vector<float> w = random_values(1000, 1), buffer(1000);
    testing::ReferenceTensor expected(w);
    for (unsigned t = 1; t <= 100; ++t) {
      const std::vector<float> gradient = random_values(1000, 100 + t);
      sgd(w, buffer, gradient, settings);
      reference_step(expected, {gradient.begin(), gradient.end()}, settings, settings.learning_rate, t);
    }
    EXPECT_LT(testing::relative_error(w, expected.w), 1e-5) << momentum;
    EXPECT_LT(testing::relative_error(buffer, expected.m), 1e-5) << momentum;
  }
}

TEST(Sgd, AnyPartitionGivesTheSameBits) {
  constexpr std::size_t kSize = 70;
  const SgdSettings settings{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.1f};
  const std::vector<float> start = random_values(kSize, 1), gradient = random_values(kSize, 2);
  std::vector<float> whole = start, buffer(kSize, 0.5f);
  sgd(whole, buffer, gradient, settings);
  for (std::size_t cut = 0; cut <= kSize; ++cut) {
    std::vector<float> parts = start, part_buffer(kSize, 0.5f);
    for (const auto& [begin, count] : {std::pair{std::size_t{0}, cut}, std::pair{cut, kSize - cut}}) {
      sgd(std::span(parts).subspan(begin, count), std::span(part_buffer).subspan(begin, count),
          std::span(gradient).subspan(begin, count), settings);
    }
    ASSERT_EQ(std::memcmp(parts.data(), whole.data(), kSize * sizeof(float)), 0) << cut;
    ASSERT_EQ(std::memcmp(part_buffer.data(), buffer.data(), kSize * sizeof(float)), 0) << cut;
  }
}

}  // namespace
}  // namespace l2l::optimizers
