// Tokenizers as lists, where another test (tests/tools/gguf_test.py) does not get to.
#include "text/listed_tokenizer.h"

#include <gtest/gtest.h>

#include <cstdio>
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

// A BPE model of SentencePiece's: <unk>, <s>, a token for each byte, and "a".
std::string sentencepiece_model() {
  const auto field = [](int number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  };
  const auto piece = [&](const std::string& text, char type) {
    return field(1, field(1, text) + std::string("\x15\0\0\x80\xbf\x18", 6) + type);
  };
  std::string model = piece("<unk>", 2) + piece("<s>", 3);
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
    model += piece(text, 6);
  }
  model += piece("a", 1);
  // Its trainer: BPE, with bytes for what has no piece. Its normalizer: a space in front, no others removed.
  return model + field(2, "\x18\x02\x98\x02\x01") +
         field(3, field(1, "identity") + std::string("\x18\1\x20\0\x28\1", 6));
}

TEST(ListedTokenizer, HasWhatIsBesideAModelOfPieces) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder / "tokenizer.model", std::ios::binary) << sentencepiece_model();
  const auto types_from = [&](std::size_t first) {
    std::vector<std::pair<std::string, ListedType>> types;
    const ListedTokenizer listed = list_tokenizer(folder.path());
    for (std::size_t i = first; i < listed.tokens.size(); ++i) {
      types.emplace_back(listed.tokens[i].text, listed.tokens[i].type);
    }
    EXPECT_EQ(listed.tokens[0].type, ListedType::unknown);
    EXPECT_EQ(listed.tokens[1].type, ListedType::control);
    return types;
  };
  using Types = std::vector<std::pair<std::string, ListedType>>;
  EXPECT_EQ(types_from(258), (Types{{"a", ListedType::normal}}));
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"added_tokens_decoder": {"0": {"content": "<unk>", "special": true}, "1": {"content": "<s>", "special": true},
             "259": {"content": "<|im_end|>", "special": true}, "260": {"content": "<tool>"}}})";
  EXPECT_EQ(
      types_from(258),
      (Types{{"a", ListedType::normal}, {"<|im_end|>", ListedType::control}, {"<tool>", ListedType::user_defined}}));
}

}  // namespace
}  // namespace l2l::text
