// The portable kernels' fused multiply-add is the C library's, bit for bit.
#include "tests/optimizers/portable_fused.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "core/denormals.h"

namespace l2l::testing {
namespace {

using Function = void (*)(const float*, const float*, const float*, float*);

struct Operands {
  std::vector<float> x, y, z;

  void add(float a, float b, float c) {
    x.push_back(a);
    y.push_back(b);
    z.push_back(c);
  }
  // Whole rows.
  void pad() {
    while (x.size() % 16 != 0) add(0, 0, 0);
  }
};

bool same(float a, float b) {
  return std::isnan(b) ? std::isnan(a) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// How many results are not those of std::fma.
int differences(const Operands& all, Function function) {
  int count = 0;
  for (std::size_t row = 0; row < all.x.size(); row += 16) {
    float result[16];
    function(&all.x[row], &all.y[row], &all.z[row], result);
    for (std::size_t i = row; i < row + 16; ++i) {
      const float expected = std::fma(all.x[i], all.y[i], all.z[i]);
      if (same(result[i - row], expected)) continue;
      if (count++ < 3 && function == portable_fused_sum) {
        ADD_FAILURE() << std::hexfloat << all.x[i] << " * " << all.y[i] << " + " << all.z[i] << " is " << expected
                      << ", not " << result[i - row];
      }
    }
  }
  return count;
}

// Both with and without denormals: workers flush them, embedding programs may not.
void expect_fused(const Operands& all) {
  for (const bool flushes : {false, true}) {
    const FlushDenormals flush(flushes);
    EXPECT_EQ(differences(all, portable_fused_sum), 0) << (flushes ? "denormals flushed" : "denormals kept");
  }
}

float power(int exponent) { return std::ldexp(1.0f, exponent); }

// Sums that are a tie of floats but for a part below the last bit of a double: half a unit in the last place times
// (1 + i 2^-23) (1 - i 2^-23), of either sign, with even and odd floats of every exponent.
Operands almost_ties() {
  Operands all;
  std::mt19937 generator(1);
  for (int exponent = -149; exponent <= 127; ++exponent) {
    const int unit = std::max(exponent - 23, -149);  // exponent of a unit in the last place
    for (int i = 1; i < 48; ++i) {
      const float fraction = static_cast<float>(generator() % (1u << 23)) * power(-23);
      const float z = std::ldexp(1 + fraction, exponent);
      const int first = std::max(-100, std::min(unit - 1 + 60, 60));
      const float x = std::ldexp(1 + static_cast<float>(i) * power(-23), first);
      const float y = std::ldexp(1 - static_cast<float>(i) * power(-23), unit - 1 - first);
      all.add(x, y, z);
      all.add(-x, y, z);
      all.add(x, y, -z);
      all.add(-x, y, -z);
      all.add(std::ldexp(1.0f, first), std::ldexp(1.0f, unit - 1 - first), z);  // a tie
    }
  }
  all.pad();
  return all;
}

Operands special_values() {
  const float infinity = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
  const float least = std::numeric_limits<float>::min(), denormal = std::numeric_limits<float>::denorm_min();
  std::vector<float> values = {0,
                               denormal,
                               3 * denormal,
                               std::nextafter(least, 0.0f),
                               least,
                               std::nextafter(least, 1.0f),
                               power(-75),
                               power(-74),
                               power(-24),
                               power(-23),
                               std::nextafter(0.5f, 0.0f),
                               0.5f,
                               std::nextafter(1.0f, 0.0f),
                               1,
                               std::nextafter(1.0f, 2.0f),
                               3,
                               power(63),
                               power(64),
                               power(102),
                               power(103),
                               power(104),
                               power(127),
                               std::nextafter(most, 0.0f),
                               most,
                               infinity,
                               std::numeric_limits<float>::quiet_NaN()};
  for (std::size_t i = values.size(); i > 0; --i) values.push_back(-values[i - 1]);
  Operands all;
  for (const float x : values) {
    for (const float y : values) {
      for (const float z : values) all.add(x, y, z);
    }
  }
  all.pad();
  return all;
}

// Any bits; products near the added number, so that they cancel or overlap; few bits, as bf16 has.
Operands random_values() {
  Operands all;
  std::mt19937 generator(2);
  const auto any = [&] { return std::bit_cast<float>(static_cast<std::uint32_t>(generator())); };
  const auto shorter = [&](float value) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000u);
  };
  for (int i = 0; i < 1 << 20; ++i) {
    const float x = any(), y = any();
    const float near = std::ldexp(x * y, static_cast<int>(generator() % 64) - 32);
    all.add(x, y, any());
    all.add(x, y, std::nextafter(near, any()));
    all.add(x, y, -x * y);
    all.add(x, shorter(y), shorter(near));
  }
  all.pad();
  return all;
}

TEST(PortableFusedSum, RoundsOnceWhereADoubleTies) { expect_fused(almost_ties()); }
TEST(PortableFusedSum, HandlesSpecialValues) { expect_fused(special_values()); }
TEST(PortableFusedSum, HandlesAnyValues) { expect_fused(random_values()); }

// A NaN operand alone is passed on with its payload and made quiet.
TEST(PortableFusedSum, PassesOnANaN) {
  for (const std::uint32_t bits : {0x7fc12345u, 0xffc12345u, 0x7f812345u, 0xff812345u}) {
    const float nan = std::bit_cast<float>(bits);
    Operands all;
    all.add(nan, 2, 3);
    all.add(2, nan, 3);
    all.add(2, 3, nan);
    all.pad();
    float result[16];
    portable_fused_sum(all.x.data(), all.y.data(), all.z.data(), result);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(std::bit_cast<std::uint32_t>(result[i]), bits | 0x00400000u);
  }
}

TEST(PortableFusedSum, NegativeControlDoublesAloneRoundTwice) {
  EXPECT_GT(differences(almost_ties(), double_rounded_sum), 1000);
  EXPECT_GT(differences(special_values(), double_rounded_sum), 0);
}

}  // namespace
}  // namespace l2l::testing
