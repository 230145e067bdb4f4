// Tokenizers as lists, where another test (tests/tools/gguf_test.py) does not get to.
#include "text/listed_tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/refusal.h"
#include "tests/support/temporary_folder.h"

namespace l2l::text {
namespace {

TEST(ListedTokenizer, HasWhatIsBesideAVocabulary) {
  const testing::TemporaryFolder folder;
  const auto configure = [&](const char* text) { std::ofstream(folder / "tokenizer_config.json") << text; };
  std::ofstream(folder / "vocab.json") << R"({"a": 0, "b": 1, "ab": 2, "<s>": 3})";
  std::ofstream(folder / "merges.txt") << "a b\n";
  configure(R"({"tokenizer_class": "GPT2Tokenizer", "bos_token": "b",
                "added_tokens_decoder": {"4": {"content": "<x>"}, "5": {"content": "<y>", "special": true}}})");
  const ListedTokenizer listed = list_tokenizer(folder.path());
  std::vector<ListedType> types;
  for (const ListedToken& token : listed.tokens) types.push_back(token.type);
  EXPECT_EQ(types, (std::vector<ListedType>{ListedType::normal, ListedType::control, ListedType::normal,
                                            ListedType::normal, ListedType::user_defined, ListedType::control}));
  EXPECT_FALSE(listed.says_surrounding);
  configure(R"({"tokenizer_class": "GPT2Tokenizer", "bos_token": "b", "add_bos_token": true})");
  const ListedTokenizer surrounded = list_tokenizer(folder.path());
  EXPECT_TRUE(surrounded.says_surrounding);
  EXPECT_EQ(surrounded.before, std::optional<TokenId>(1));
  EXPECT_EQ(surrounded.behind, std::nullopt);
  configure(R"({"add_prefix_space": true})");
  const std::string refused = testing::refusal([&] { list_tokenizer(folder.path()); });
  EXPECT_NE(refused.find("add_prefix_space is true, which gguf files cannot say"), std::string::npos) << refused;
}

}  // namespace
}  // namespace l2l::text
