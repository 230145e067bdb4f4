// Functions of the host's kernels on vectors.
#include "device/kernels/vector_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace l2l::device::kernels {
namespace {

// Floats of all sizes and signs, and what is none.
std::vector<float> floats() {
  std::vector<float> all{0.0f, -0.0f, -87.0f, 88.0f, -87.5f, 88.5f};
  for (const float special : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()}) {
    all.insert(all.end(), {special, -special});
  }
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 4099) {
    all.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  for (float x = -90; x < 90; x += 1.0f / 1024) all.push_back(x);
  all.resize((all.size() + kLanes - 1) / kLanes * kLanes);
  return all;
}

TEST(VectorMath, TheExponentialOfAVectorHasTheBitsOfItsElements) {
  const VectorExp exp;
  const std::vector<float> all = floats();
  std::vector<float> result(kLanes);
  for (std::size_t i = 0; i < all.size(); i += kLanes) {
    store_vector(result.data(), exp(load_vector(all.data() + i)));
    for (std::size_t lane = 0; lane < static_cast<std::size_t>(kLanes); ++lane) {
      const float one = fast_exp(all[i + lane]);
      if (std::isnan(one) && std::isnan(result[lane])) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(result[lane]), std::bit_cast<std::uint32_t>(one)) << all[i + lane];
    }
  }
}

TEST(VectorMath, TheExponentialIsWithinTwoUnitsInTheLastPlace) {
  for (const float x : floats()) {
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(fast_exp(x)));
      continue;
    }
    const double exact = std::exp(static_cast<double>(std::fmin(std::fmax(x, -87.0f), 88.0f)));
    const auto rounded = static_cast<float>(exact);
    const double unit = static_cast<double>(std::nextafter(rounded, INFINITY)) - static_cast<double>(rounded);
    ASSERT_LE(std::abs(static_cast<double>(fast_exp(x)) - exact), 2 * unit) << x;
  }
}

}  // namespace
}  // namespace l2l::device::kernels
