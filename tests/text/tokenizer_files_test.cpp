// Which files make a tokenizer, and what those beside a vocabulary say. Ids and texts are those of transformers 5.24.
#include "text/tokenizer_files.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/hash.h"
#include "tests/support/refusal.h"
#include "tests/support/temporary_folder.h"

namespace l2l::text {
namespace {

using Ids = std::vector<std::int32_t>;

const std::string kWords = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n<\nent\n>\n";

class TokenizerFiles : public ::testing::Test {
 protected:
  void write(const char* name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  std::uint64_t hash() const { return hash_of(folder_.path()); }
  Ids encode(const std::string& text) const {
    const std::unique_ptr<Tokenizer> tokenizer = open_tokenizer(folder_.path());
    Ids ids;
    tokenizer->make_encoder()->encode(text, /*special=*/false, ids);
    return ids;
  }
  std::string decode(const Ids& ids) const { return open_tokenizer(folder_.path())->decode(ids, /*special=*/false); }

  const testing::TemporaryFolder folder_;
};

using Texts = std::vector<std::pair<const char*, std::string>>;  // by name

TEST_F(TokenizerFiles, TheHashIsOfAllThatAreRead) {
  for (const Texts& vocabulary : {Texts{{"vocab.txt", kWords}}, Texts{{"tokenizer.model", "\n\x0d pieces"}},
                                  Texts{{"vocab.json", "{\"a\": 0}"}, {"merges.txt", "#version: 0.2\n"}}}) {
    const testing::TemporaryFolder folder;
    std::string text;
    const auto write = [&](const char* name, const std::string& content) {
      std::ofstream(folder / name) << content;
      text += content;
    };
    const auto expect_all = [&](const char* last) {
      EXPECT_EQ(hash_of(folder.path()), l2l::hash_of(text)) << vocabulary[0].first << ", " << last;
    };
    for (const auto& [name, content] : vocabulary) write(name, content);
    expect_all("alone");
    std::ofstream(folder / "special_tokens_map.json") << "{}";  // without added_tokens.json it says nothing
    expect_all("special_tokens_map.json");
    for (const char* const name : {"tokenizer_config.json", "added_tokens.json", "special_tokens_map.json"}) {
      write(name, "{ }");
      if (name != std::string_view("added_tokens.json")) expect_all(name);
    }
  }
}

TEST_F(TokenizerFiles, OthersHaveTheHashOfOneFile) {
  for (const char* const beside : {"tokenizer_config.json", "added_tokens.json"}) write(beside, "{}");
  write("tokenizer.model", "IQ== 0\n");
  EXPECT_EQ(hash(), l2l::hash_of("IQ== 0\n"));
  write("tokenizer.json", "{\"model\": {}}");
  EXPECT_EQ(hash(), l2l::hash_of("{\"model\": {}}"));
}

TEST_F(TokenizerFiles, APointerOfGitLfsIsCalledSo) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  for (const char* const name : {"vocab.txt", "tokenizer.json"}) {
    write(name, pointer);
    const std::string says = testing::refusal([&] { encode("a"); });
    EXPECT_NE(says.find(std::string(name) + ": is a pointer of Git LFS"), std::string::npos) << says;
    EXPECT_EQ(hash(), l2l::hash_of(pointer)) << "what nothing reads may be carried along";
  }
}

TEST_F(TokenizerFiles, LinesOfAVocabularyEndWithTheirLastCharacter) {
  write("vocab.txt", "[PAD]\r\n[UNK]\r\n[CLS]\n[SEP]\n[MASK]\nthe \nox\t\r\ncat\u3000\n a\n\nb");
  EXPECT_EQ(encode("the ox cat a b"), (Ids{5, 6, 7, 1, 10}));
}

TEST_F(TokenizerFiles, OfFairseqAreRefused) {
  write("sentencepiece.bpe.model", "\n\x0d pieces");
  for (const auto& path : {folder_.path(), folder_ / "sentencepiece.bpe.model"}) {
    const std::string message = testing::refusal([&] { open_tokenizer(path); });
    EXPECT_NE(message.find("number its pieces otherwise"), std::string::npos) << message;
  }
  EXPECT_TRUE(has_tokenizer(folder_.path()));  // so that this is said, and not that there is none
}

TEST_F(TokenizerFiles, AddedTokensOfOlderDirectories) {
  const std::string text = "The <ENT>the <Ent>";
  write("vocab.txt", kWords);
  write("added_tokens.json", R"({"<ENT>": 9, "the": 5})");
  EXPECT_EQ(encode(text), (Ids{5, 9, 5, 9}));
  EXPECT_EQ(decode({5, 9}), "the <ent>");
  for (const char* const special :
       {R"({"pad_token": {"content": "<ENT>"}})", R"({"extra_special_tokens": ["<ENT>"]})"}) {
    for (const char* const file : {"special_tokens_map.json", "tokenizer_config.json"}) {
      write(file, special);
      EXPECT_EQ(encode(text), (Ids{5, 9, 5, 6, 7, 8})) << file;
      EXPECT_EQ(decode({5, 9}), "the") << file;
      write(file, "{}");
    }
  }
  // The newer list counts where there is one.
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"9": {"content": "<x>"}}})");
  EXPECT_EQ(encode("<x><ENT>"), (Ids{9, 6, 7, 8}));
}

TEST_F(TokenizerFiles, AddedTokensOfOlderBytePairs) {
  write("vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  write("merges.txt", "a b\n");
  write("added_tokens.json", R"({"<|pad|>": 3})");
  write("special_tokens_map.json", R"({"pad_token": "<|pad|>"})");
  EXPECT_EQ(encode("ab<|pad|>a"), (Ids{2, 3, 0}));
  EXPECT_EQ(decode({2, 3, 0}), "aba");
}

TEST_F(TokenizerFiles, AddedTokensThatContradictAreRefused) {
  write("vocab.txt", kWords);
  const auto refusal = [&](const char* added) {
    write("added_tokens.json", added);
    return testing::refusal([&] { open_tokenizer(folder_.path()); });
  };
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"the": 9})", "\"the\" has the id 9, but the vocabulary gives it 5: take the file that was saved"},
      {R"({"<x>": 5})", "\"<x>\" has the id 5, which is one of the vocabulary's 9: take the file"},
      {R"({"<x>": 9, "<y>": 9})", "id 9 is that of two tokens"},
      {R"({"<x>": 10})", "\"<x>\" has the id 10, but Hugging Face's library gives it 9"},
      {R"({"<x>": "9"})", "added_tokens.<x>: expected an integer from 0 to"},
      {"[]", "added_tokens.json: is not a JSON object"}};
  for (const auto& [added, says] : wrong) {
    const std::string message = refusal(added);
    EXPECT_NE(message.find((folder_ / "added_tokens.json").string()), std::string::npos) << message;
    EXPECT_NE(message.find(says), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace l2l::text
