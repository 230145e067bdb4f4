// l2l/tokenizer.h: text to ids and back for programs that embed the library. The tokenizers themselves are tested in
// tests/tools/tokenizers_test.py.
#include "l2l/tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/refusal.h"
#include "tests/support/temporary_folder.h"

namespace l2l {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(PublicTokenizer, BytesAreTokens) {
  const Tokenizer tokenizer("bytes");
  const std::string text("\0a\xff\xc3\xa9", 5);
  EXPECT_EQ(tokenizer.vocabulary(), 256);
  EXPECT_EQ(tokenizer.encode(text), (Ids{0, 97, 255, 195, 169}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  EXPECT_EQ(tokenizer.decode(Ids{97, 256, -1, 98}), "a\uFFFD\uFFFDb");
  const std::vector<std::string_view> texts = {text};
  EXPECT_THROW(tokenizer.encode_all(texts, false, 0), BadInput);
}

TEST(PublicTokenizer, OpensWhatDataTokenizerTakes) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "vocab.txt") << "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n##s\n";
  for (const std::filesystem::path& path : {folder / "vocab.txt", folder.path()}) {
    const std::string refused = testing::refusal([&] { Tokenizer tokenizer(path); });
    if (refused.find("this build has no tokenizers") != std::string::npos) GTEST_SKIP() << refused;
    const Tokenizer tokenizer(path);
    EXPECT_EQ(tokenizer.vocabulary(), 8);
    EXPECT_EQ(tokenizer.encode("hello worlds"), (Ids{5, 6, 7}));
    EXPECT_EQ(tokenizer.encode("hello worlds", /*special=*/true), (Ids{2, 5, 6, 7, 3}));
    EXPECT_EQ(tokenizer.decode(Ids{2, 5, 6, 7, 3}), "hello worlds");
    EXPECT_EQ(tokenizer.decode(Ids{2, 5, 3}, /*special=*/true), "[CLS] hello [SEP]");
    const std::vector<std::string_view> texts = {"hello", "worlds", ""};
    EXPECT_EQ(tokenizer.encode_all(texts, false, 2), (std::vector<Ids>{{5}, {6, 7}, {}}));
    EXPECT_THROW(tokenizer.decode(Ids{8}), BadInput);
  }
}

TEST(PublicTokenizer, WhatCannotBeReadIsNamed) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(testing::place_of_refusal([&] { Tokenizer(folder / "none"); }).file, (folder / "none").string());
}

}  // namespace
}  // namespace l2l
