// Number formats, shapes and the random number generator.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/denormals.h"
#include "core/dropout.h"
#include "core/dtype.h"
#include "core/fixed_point.h"
#include "core/half_rows.h"
#include "core/philox.h"
#include "core/shape.h"

namespace l2l {
namespace {

// The two bfloat16 numbers around |x|, compared by distance in fp64; the value after the largest is 2^128.
std::uint16_t nearest_ties_away(std::uint32_t bits) {
  const auto lower = static_cast<std::uint16_t>((bits & 0x7fffffffu) >> 16);
  const auto upper = static_cast<std::uint16_t>(lower + 1);
  const double x = std::fabs(static_cast<double>(std::bit_cast<float>(bits)));
  const double below = to_float(bf16{lower});
  const double above = upper == 0x7f80 ? std::ldexp(1.0, 128) : to_float(bf16{upper});
  const std::uint16_t magnitude = x - below < above - x ? lower : upper;
  return static_cast<std::uint16_t>(magnitude | (bits >> 31 << 15));
}

TEST(Bfloat16, RoundsEveryUpperHalfToTheNearestTiesAway) {
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    if ((upper & 0x7f80) == 0x7f80) continue;
    for (const std::uint32_t lower : {0u, 1u, 0x1234u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const std::uint32_t bits = upper << 16 | lower;
      ASSERT_EQ(to_bf16(std::bit_cast<float>(bits)).bits, nearest_ties_away(bits)) << std::hex << bits;
    }
  }
}

TEST(FixedPoint, RoundsToTheNearestUnitTiesToEven) {
  for (std::int64_t units = -3; units <= 3; ++units) {
    for (const double part : {0.0, 0.25, 0.49, 0.5, 0.51}) {
      const double exact = static_cast<double>(units) + part;
      EXPECT_EQ(to_fixed(static_cast<float>(exact / 65536)), static_cast<std::int32_t>(std::nearbyint(exact))) << exact;
    }
  }
  for (std::uint32_t state = 1, i = 0; i < 100000; ++i) {
    state = state * 1664525u + 1013904223u;
    const float value = std::bit_cast<float>(state);
    const double units = std::nearbyint(static_cast<double>(value) * 65536);
    const bool fits = std::abs(units) < 2147483648.0;  // false of a NaN
    ASSERT_EQ(to_fixed(value), fits ? static_cast<std::int32_t>(units) : kLostFixed) << value;
  }
}

TEST(FixedPoint, ReadsBackWhatAFloatCanHold) {
  for (const std::int32_t units : {0, 1, -1, 65536, -98304, 16777215, 2147483647, -2147483647}) {
    EXPECT_EQ(from_fixed(units), static_cast<float>(units / 65536.0)) << units;
  }
  EXPECT_TRUE(std::isnan(from_fixed(kLostFixed)));
}

TEST(FixedPoint, SumsAreExactOrLost) {
  std::vector<std::int32_t> numbers = {0, 1, -1, 2147483647, -2147483647, kLostFixed, 1 << 30, -(1 << 30)};
  for (std::uint32_t state = 9, i = 0; i < 200; ++i) {
    numbers.push_back(static_cast<std::int32_t>(state = state * 1664525u + 1013904223u));
  }
  for (const std::int32_t a : numbers) {
    for (const std::int32_t b : numbers) {
      const bool lost = a == kLostFixed || b == kLostFixed;
      const auto expected = [&](std::int64_t exact) {
        return lost || std::abs(exact) > 2147483647 ? kLostFixed : static_cast<std::int32_t>(exact);
      };
      ASSERT_EQ(add_fixed(a, b), expected(std::int64_t{a} + b)) << a << " " << b;
      if (add_fixed(a, b) != kLostFixed) {
        ASSERT_EQ(add_fixed(add_fixed(a, b), -b), a);
      }
    }
  }
}

TEST(Bfloat16, KeepsInfinitiesAndNaNs) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_float(to_bf16(infinity)), infinity);
  EXPECT_EQ(to_float(to_bf16(-infinity)), -infinity);
  for (const std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu, 0x7fc00000u}) {
    EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(bits))))) << std::hex << bits;
  }
}

TEST(Bfloat16, ConvertsBackExactly) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7f80) == 0x7f80 && (bits & 0x7f) != 0) continue;
    ASSERT_EQ(to_bf16(to_float(bf16{static_cast<std::uint16_t>(bits)})).bits, bits);
  }
}

// The value of a half by its definition: sign, 5 bits of exponent, 10 of fraction.
double value_of_half(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

bool is_finite_half(std::uint32_t bits) { return (bits & 0x7c00) != 0x7c00; }

TEST(Half, EveryOneHasItsValueAndComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = to_float(f16{static_cast<std::uint16_t>(bits)});
    if (is_finite_half(bits)) {
      ASSERT_EQ(static_cast<double>(value), value_of_half(bits)) << bits;
      ASSERT_EQ(std::signbit(value), bits >> 15 != 0);
    } else {
      ASSERT_EQ(std::isnan(value), (bits & 0x3ff) != 0) << bits;
      ASSERT_EQ(std::isinf(value), (bits & 0x3ff) == 0) << bits;
    }
    const std::uint32_t quiet = std::isnan(value) ? 0x200 : 0;
    ASSERT_EQ(to_f16(value).bits, bits | quiet);
  }
}

// Between every two neighbours: the nearer one, in the middle the even one. After the largest, 65504, comes infinity,
// where 65536 would be.
TEST(Half, RoundsToTheNearestTiesToEven) {
  for (std::uint32_t below = 0; below < 0x7c00; ++below) {
    const double low = value_of_half(below), high = value_of_half(below + 1);
    const float middle = static_cast<float>((low + high) / 2);  // exact: one bit more
    const std::uint32_t even = below + (below & 1);
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const auto rounded = [&](float value) { return to_f16(sign == 0 ? value : -value).bits; };
      ASSERT_EQ(rounded(middle), even | sign) << below;
      ASSERT_EQ(rounded(std::nextafter(middle, 0.0f)), below | sign) << below;
      ASSERT_EQ(rounded(std::nextafter(middle, 1e9f)), (below + 1) | sign) << below;
    }
  }
  EXPECT_EQ(to_f16(std::numeric_limits<float>::max()).bits, 0x7c00);
  EXPECT_EQ(to_f16(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
  EXPECT_EQ(to_f16(1e-30f).bits, 0);
  EXPECT_EQ(to_f16(-1e-40f).bits, 0x8000);
}

// Whatever makes an array's conversion fast gives the bits of the single one, subnormals on flushing threads included.
TEST(Half, ArraysHaveTheBitsOfSingleConversions) {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    for (const std::uint32_t low : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x3000u, 0xffffu}) {
      values.push_back(std::bit_cast<float>(bits << 16 | low));
    }
  }
  std::vector<f16> halves(values.size());
  const FlushDenormals flush;
  to_f16(values.data(), halves.data(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(halves[i].bits, to_f16(values[i]).bits) << values[i];
  std::vector<f16> all(0x10000 + 5);
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> widened(all.size());
  to_float(all.data(), widened.data(), static_cast<std::int64_t>(all.size()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(widened[i]), std::bit_cast<std::uint32_t>(to_float(all[i]))) << i;
  }
}

TEST(Bfloat16, ArraysHaveTheBitsOfSingleConversions) {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    for (const std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      values.push_back(std::bit_cast<float>(bits << 16 | low));
    }
  }
  values.resize(values.size() - 3);  // no whole vectors
  std::vector<bf16> rounded(values.size());
  const FlushDenormals flush;
  to_bf16(values.data(), rounded.data(), static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(rounded[i].bits, to_bf16(values[i]).bits) << values[i];
  std::vector<bf16> all(0x10000 + 5);
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> widened(all.size());
  to_float(all.data(), widened.data(), static_cast<std::int64_t>(all.size()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(widened[i]), std::bit_cast<std::uint32_t>(to_float(all[i]))) << i;
  }
}

// Known-answer tests published with Random123 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({}, 0), (PhiloxBlock{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  const RngKey ones{.seed = ~std::uint64_t{0}, .step = ~0u, .layer = ~0u, .microbatch = 0xffffffu, .op = 0xffu};
  EXPECT_EQ(philox(ones, ~0u), (PhiloxBlock{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  // The digits of pi: counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0.
  const RngKey pi{
      .seed = 0x299f31d0a4093822u, .step = 0x03707344u, .layer = 0x13198a2eu, .microbatch = 0x85a308u, .op = 0xd3u};
  EXPECT_EQ(philox(pi, 0x243f6a88u), (PhiloxBlock{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, EveryFieldOfTheKeyChangesTheNumbers) {
  const RngKey base{.seed = 1, .step = 2, .layer = 3, .microbatch = 4, .op = 5};
  std::vector<RngKey> others(6, base);
  others[0].seed ^= 1;
  others[1].seed ^= std::uint64_t{1} << 32;
  others[2].step ^= 1;
  others[3].layer ^= 1;
  others[4].microbatch ^= 1;
  others[5].op ^= 1;
  for (const RngKey& other : others) EXPECT_NE(philox(other, 7), philox(base, 7));
  EXPECT_NE(philox(base, 8), philox(base, 7));
}

TEST(Philox, UniformNumbersAreBelowOne) {
  EXPECT_EQ(to_uniform(0), 0.0f);
  EXPECT_LT(to_uniform(~0u), 1.0f);
  EXPECT_EQ(to_uniform(0x80000000u), 0.5f);
}

// 256ths that change neither p nor 1 - p by more than 1/32.
TEST(Dropout, BytesDecideWhereTheyAreFineEnough) {
  EXPECT_EQ(dropout_byte_threshold(0.1f), 26u);
  EXPECT_EQ(dropout_byte_threshold(0.5f), 128u);
  EXPECT_EQ(dropout_byte_threshold(0.9f), 230u);
  EXPECT_EQ(dropout_byte_threshold(1.0f / 256), 1u);
  EXPECT_EQ(dropout_byte_threshold(255.0f / 256), 255u);
  EXPECT_EQ(dropout_byte_threshold(0.02f), 5u);  // 5.12
  for (const float p : {0.0f, 0.001f, 0.01f, 0.99f, 0.999f}) EXPECT_EQ(dropout_byte_threshold(p), 0u) << p;
}

// Of n draws the survivors are within five standard deviations of n (1 - p).
TEST(Dropout, TheThresholdDropsItsShare) {
  constexpr int kDraws = 1 << 20;
  for (const float p : {0.0f, 0.1f, 0.5f, 0.9f}) {
    int survivors = 0;
    for (std::uint32_t i = 0; i < kDraws / 4; ++i) {
      for (const std::uint32_t word : philox({.seed = 99}, i)) survivors += word >= dropout_threshold(p);
    }
    const double deviation = std::sqrt(kDraws * static_cast<double>(p) * (1 - static_cast<double>(p)));
    EXPECT_NEAR(survivors, kDraws * (1 - static_cast<double>(p)), 5 * deviation) << p;
  }
}

TEST(Shape, CountsComparesAndPrints) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3u);
  EXPECT_EQ(shape[2], 4);
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{5, 0}).elements(), 0);
  EXPECT_EQ(shape.to_string(), "[2, 3, 4]");
  EXPECT_EQ(shape, (Shape{2, 3, 4}));
  EXPECT_NE(shape, (Shape{2, 3, 4, 1}));
}

TEST(Shape, RejectsWhatItCannotHold) {
  EXPECT_THROW((Shape{1, 2, 3, 4, 5, 6, 7, 8, 9}), BadInput);
  EXPECT_THROW((Shape{2, -1}), BadInput);
  constexpr std::int64_t kHalf = std::int64_t{1} << 62;
  EXPECT_EQ((Shape{kHalf}).elements(), kHalf);
  EXPECT_THROW((Shape{kHalf, 2}).elements(), BadInput);  // 2^63, which fits in 64 bits without a sign
  const Shape large{std::int64_t{1} << 32, std::int64_t{1} << 32};
  EXPECT_THROW(large.elements(), BadInput);
}

TEST(DType, SizesMatchTheTypes) {
  EXPECT_EQ(size_of(DType::f32), sizeof(float));
  EXPECT_EQ(size_of(DType::f64), sizeof(double));
  EXPECT_EQ(size_of(DType::i32), sizeof(std::int32_t));
  EXPECT_EQ(size_of(DType::bf16), sizeof(bf16));
  EXPECT_EQ(size_of(DType::f16), sizeof(f16));
}

}  // namespace
}  // namespace l2l
