#include "core/hash.h"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>
#include <vector>

namespace l2l {
namespace {

std::uint64_t hash(std::span<const std::byte> bytes) {
  Hash64 hash;
  hash.update(bytes);
  return hash.value();
}

std::uint64_t hash(std::string_view text) { return hash(std::as_bytes(std::span(text))); }

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 3);
  return bytes;
}

TEST(Hash, PublishedValues) {
  EXPECT_EQ(hash(""), 0xef46db3751d8e999u);
  EXPECT_EQ(hash("a"), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(hash("abc"), 0x44bc2cf5ad770999u);
  EXPECT_EQ(hash("Nobody inspects the spammish repetition"), 0xfbcea83c8a378bf1u);
}

// From the reference implementation (python-xxhash 3): lengths around each of its loops.
TEST(Hash, MatchesTheReferenceAtEveryKindOfLength) {
  const std::pair<std::size_t, std::uint64_t> expected[] = {
      {1, 0x1f25c8d0bc1f4bb6u},  {3, 0x31d2363f52e564c9u},  {4, 0x9bb64b7d66ee9fdau},   {7, 0x9a7b149959ce60d8u},
      {8, 0xdab99d95c6f90092u},  {31, 0xa2aa5f33cc4a6119u}, {32, 0x23c3c17ef790fd97u},  {33, 0x50a7cfc7ba588784u},
      {63, 0x5e3e54b431c7493cu}, {64, 0x0eb64b3ef6eeb01fu}, {100, 0xa61f8d4c170fe531u}, {1000, 0x5f235fa033f1a3fbu}};
  for (const auto& [size, value] : expected) EXPECT_EQ(hash(pattern(size)), value) << size;
}

TEST(Hash, DoesNotDependOnHowTheBytesAreCut) {
  const std::vector<std::byte> bytes = pattern(333);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    Hash64 pieces;
    pieces.update(std::span(bytes).first(cut));
    pieces.update(std::span(bytes).subspan(cut));
    ASSERT_EQ(pieces.value(), hash(bytes)) << cut;
  }
  Hash64 single;
  for (const std::byte& byte : bytes) single.update(std::span(&byte, 1));
  EXPECT_EQ(single.value(), hash(bytes));
}

TEST(Hash, AnyBitMatters) {
  std::vector<std::byte> bytes = pattern(77);
  const std::uint64_t before = hash(bytes);
  for (std::byte& byte : bytes) {
    byte ^= std::byte{1};
    EXPECT_NE(hash(bytes), before);
    byte ^= std::byte{1};
  }
}

TEST(Hash, HexHasSixteenDigits) {
  EXPECT_EQ(to_hex(0), "0000000000000000");
  EXPECT_EQ(to_hex(0x0123456789abcdefu), "0123456789abcdef");
}

}  // namespace
}  // namespace l2l
