#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "core/dtype.h"
#include "tests/optimizers/plain.h"

namespace l2l::optimizers {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000u;

// Every sign, exponent and upper mantissa with the low halves where rounding changes its mind.
std::vector<float> all_kinds_of_values() {
  std::vector<std::uint32_t> lows = {0, 1, 2, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0x8002, 0xfffe, 0xffff};
  for (std::uint32_t bit = 4; bit < 0x8000; bit *= 2) lows.push_back(bit);
  std::vector<float> values;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low : lows) {
      const std::uint32_t bits = high << 16 | low;
      if ((bits & 0x7fffffffu) < kInfinity) values.push_back(std::bit_cast<float>(bits));
    }
  }
  return values;
}

struct Halves {
  explicit Halves(const std::vector<float>& values) : wire(values.size()), low(values.size()) {
    split(values, wire, low);
  }
  std::vector<std::uint16_t> wire, low;
};

TEST(SplitMaster, JoinIsTheExactInverse) {
  const std::vector<float> values = all_kinds_of_values();
  Halves halves(values);
  std::vector<float> joined(values.size());
  join(halves.wire, halves.low, joined);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(joined[i]), std::bit_cast<std::uint32_t>(values[i])) << values[i];
  }
}

// Against the definition: no bf16 is nearer, and of two equally near ones it is the one further from zero.
TEST(SplitMaster, WireIsTheNearestBfloat16TiesAway) {
  const std::vector<float> values = all_kinds_of_values();
  Halves halves(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value_of = [](int bits) {
      return static_cast<double>(to_float(bf16{static_cast<std::uint16_t>(bits)}));
    };
    const int magnitude = halves.wire[i] & 0x7fff;
    if (magnitude >= 0x7f80) continue;  // rounded to infinity
    const double exact = std::abs(static_cast<double>(values[i]));
    const double distance = std::abs(exact - value_of(magnitude));
    ASSERT_EQ(halves.wire[i] >> 15, std::signbit(values[i]));
    ASSERT_TRUE(magnitude == 0 || distance <= std::abs(exact - value_of(magnitude - 1))) << values[i];
    ASSERT_TRUE(magnitude == 0x7f7f || distance < std::abs(exact - value_of(magnitude + 1))) << values[i];
  }
}

TEST(SplitMaster, AgreesWithTheScalarConversion) {
  const std::vector<float> values = all_kinds_of_values();
  Halves halves(values);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(halves.wire[i], to_bf16(values[i]).bits) << values[i];
}

TEST(SplitMaster, AnyLengthWorks) {
  const std::vector<float> all = all_kinds_of_values();
  for (std::size_t size = 0; size < 70; ++size) {
    const std::vector<float> values(all.begin() + 300000, all.begin() + 300000 + static_cast<std::ptrdiff_t>(size));
    Halves halves(values);
    std::vector<float> joined(size);
    join(halves.wire, halves.low, joined);
    ASSERT_EQ(joined, values);
  }
}

}  // namespace
}  // namespace l2l::optimizers
