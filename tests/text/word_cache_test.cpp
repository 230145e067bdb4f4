#include "text/word_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace l2l::text {
namespace {

TEST(WordCache, FindsWhatItKeptOrNothing) {
  constexpr TokenId kPieces = 100'000;  // more than its places
  WordCache cache;
  std::vector<TokenId> ids;
  EXPECT_FALSE(cache.find("piece 1", ids));
  for (TokenId i = 0; i < kPieces; ++i) {
    const std::string piece = "piece " + std::to_string(i);
    const std::vector<TokenId> kept = {i, i + 1};
    cache.keep(piece, kept);
    ids.clear();
    ASSERT_TRUE(cache.find(piece, ids));
    ASSERT_EQ(ids, kept);
  }
  std::size_t found = 0;
  for (TokenId i = 0; i < kPieces; ++i) {
    ids.clear();
    if (!cache.find("piece " + std::to_string(i), ids)) continue;
    ++found;
    ASSERT_EQ(ids, (std::vector<TokenId>{i, i + 1}));
  }
  EXPECT_GT(found, 20'000u);  // of 32,768 places
}

TEST(WordCache, KeepsNothingLong) {
  WordCache cache;
  std::vector<TokenId> ids;
  cache.keep(std::string(31, 'x'), std::vector<TokenId>{1});
  cache.keep("x", std::vector<TokenId>(9, 1));
  EXPECT_FALSE(cache.find(std::string(31, 'x'), ids));
  EXPECT_FALSE(cache.find("x", ids));
}

}  // namespace
}  // namespace l2l::text
