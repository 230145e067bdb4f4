#include "core/bytes.h"

#include <gtest/gtest.h>

#include "core/checked.h"

namespace l2l {
namespace {

TEST(Bytes, ParsesEveryUnit) {
  EXPECT_EQ(parse_bytes("0"), 0u);
  EXPECT_EQ(parse_bytes("123456789"), 123456789u);
  EXPECT_EQ(parse_bytes("17B"), 17u);
  EXPECT_EQ(parse_bytes("3KB"), 3000u);
  EXPECT_EQ(parse_bytes("500MB"), 500'000'000u);
  EXPECT_EQ(parse_bytes("2GB"), 2'000'000'000u);
  EXPECT_EQ(parse_bytes("1TB"), 1'000'000'000'000u);
  EXPECT_EQ(parse_bytes("3KiB"), 3072u);
  EXPECT_EQ(parse_bytes("5MiB"), 5242880u);
  EXPECT_EQ(parse_bytes("8GiB"), 8589934592u);
  EXPECT_EQ(parse_bytes("2TiB"), 2199023255552u);
  EXPECT_EQ(parse_bytes("8gib"), 8589934592u);
}

TEST(Bytes, ParsesFractionsExactly) {
  EXPECT_EQ(parse_bytes("1.5GiB"), 1610612736u);
  EXPECT_EQ(parse_bytes("0.000001TB"), 1'000'000u);
  EXPECT_EQ(parse_bytes("1.1KB"), 1100u);
  EXPECT_EQ(parse_bytes("1.50 GiB"), 1610612736u);
}

TEST(Bytes, ParsesTheLargestNumberAndNoLarger) {
  EXPECT_EQ(parse_bytes("18446744073709551615"), 18446744073709551615u);
  EXPECT_THROW(parse_bytes("18446744073709551616"), BadInput);
  EXPECT_EQ(parse_bytes("16777215TiB"), Bytes{16777215} * 1024 * kGiB);
  EXPECT_THROW(parse_bytes("16777216TiB"), BadInput);
}

TEST(Bytes, RejectsWhatIsNoSize) {
  for (const char* text : {"", " ", "GiB", "-1", "+1", "1..5GiB", "1.GiB", ".5GiB", "1.5", "1.0000001GiB", "8 G iB",
                           "8Gi", "8XB", "0x10", "1e3", "8GiB ", "8  GiB", "nan"}) {
    EXPECT_THROW(parse_bytes(text), BadInput) << '"' << text << '"';
  }
}

TEST(Bytes, NamesTheTextItRejects) {
  for (const char* const text : {"8 parsecs", "16777216TiB", "18446744073709551616"}) {
    try {
      parse_bytes(text);
      FAIL() << text;
    } catch (const BadInput& error) {
      EXPECT_NE(std::string(error.what()).find("size \"" + std::string(text) + "\""), std::string::npos)
          << error.what();
    }
  }
}

TEST(Bytes, FormatsThreeSignificantDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(kGiB + kGiB / 2), "1.50 GiB");
  EXPECT_EQ(format_bytes(15 * kMiB), "15.0 MiB");
  EXPECT_EQ(format_bytes(150 * kMiB), "150 MiB");
  EXPECT_EQ(format_bytes(1023 * kMiB), "0.999 GiB");
  EXPECT_EQ(format_bytes(~Bytes{0}), "16.0 EiB");
}

// Parsing what was printed gives the number back to within the digits shown.
TEST(Bytes, FormatAndParseAgree) {
  for (Bytes bytes = 1; bytes < Bytes{1} << 49; bytes = bytes * 17 / 10 + 1) {
    const double back = static_cast<double>(parse_bytes(format_bytes(bytes)));
    EXPECT_NEAR(back / static_cast<double>(bytes), 1.0, 0.0051) << bytes;
  }
}

TEST(Bytes, AlignsUp) {
  EXPECT_EQ(align_up(0, 64), 0u);
  EXPECT_EQ(align_up(1, 64), 64u);
  EXPECT_EQ(align_up(64, 64), 64u);
  EXPECT_EQ(align_up(65, 64), 128u);
}

TEST(Checked, OverflowIsAnErrorThatNamesTheQuantity) {
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  EXPECT_EQ(checked_multiply(1u << 31, 1u << 31, "x"), std::uint64_t{1} << 62);
  EXPECT_EQ(checked_add(kMax - 1, 1, "x"), kMax);
  EXPECT_THROW(checked_add(kMax, 1, "x"), BadInput);
  try {
    checked_multiply(std::uint64_t{1} << 32, std::uint64_t{1} << 32, "tensor wte");
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find("tensor wte"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace l2l
