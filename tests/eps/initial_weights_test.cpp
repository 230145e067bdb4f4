#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/philox.h"
#include "tests/eps/toy.h"
#include "tests/support/parameter_state.h"

namespace l2l::eps::testing {
namespace {

std::vector<float> initial(GroupIndex group, std::size_t parameter, const StoreOptions& options) {
  TestMemory memory;
  Failure failure;
  const ParameterStore store(toy_layout(), options, memory, failure, nullptr);
  const ParameterSpec& spec = store.layout().groups[static_cast<std::size_t>(group)].parameters[parameter];
  const std::size_t count = static_cast<std::size_t>(spec.shape.elements());
  std::vector<float> master(count), moment1(count), moment2(count);
  read_state(store, group, parameter, {master, moment1, moment2});
  EXPECT_EQ(moment1, std::vector<float>(count));
  EXPECT_EQ(moment2, std::vector<float>(count));
  return master;
}

TEST(InitialWeights, OnesAndZeros) {
  EXPECT_EQ(initial(kNorm, 0, toy_options()), std::vector<float>(16, 1.0f));
  EXPECT_EQ(initial(kNorm, 1, toy_options()), std::vector<float>(16, 0.0f));
}

// Box and Muller in double on the words that the header promises: key (seed, group id, index of the parameter).
TEST(InitialWeights, AreBoxMullerOfPhiloxWords) {
  const std::vector<float> values = initial(kBlock1, 1, toy_options());
  const RngKey key{.seed = 7, .layer = 1, .op = 1};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const PhiloxBlock words = philox(key, static_cast<std::uint32_t>(i / 4));
    const double uniform = (words[i % 4 / 2 * 2] + 0.5) / 4294967296.0;
    const double angle = 2 * std::numbers::pi * (words[i % 4 / 2 * 2 + 1] >> 8) / 16777216.0;
    const double normal = std::sqrt(-2 * std::log(uniform)) * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    ASSERT_NEAR(values[i], 0.02 * normal, 0.02 * 2e-5) << i;
  }
}

TEST(InitialWeights, HaveTheMomentsOfANormal) {
  const std::vector<float> values = initial(kBlock0, 1, toy_options());
  double sum = 0, squares = 0, fourths = 0;
  for (const double value : values) {
    const double z = value / 0.02;
    sum += z;
    squares += z * z;
    fourths += z * z * z * z;
  }
  const double count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2 / count));
  EXPECT_NEAR(fourths / count, 3, 5 * std::sqrt(96 / count));
}

TEST(InitialWeights, DependOnSeedAndGroupOnly) {
  StoreOptions options = toy_options();
  const std::vector<float> values = initial(kBlock0, 1, options);
  options.threads = 4;
  options.wire = DType::bf16;
  options.update = UpdateMode::after_backward;
  EXPECT_EQ(initial(kBlock0, 1, options), values);
  EXPECT_NE(initial(kBlock1, 1, options), values);
  options.seed = 8;
  EXPECT_NE(initial(kBlock0, 1, options), values);
}

}  // namespace
}  // namespace l2l::eps::testing
