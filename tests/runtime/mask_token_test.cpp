#include "runtime/options/mask_token.h"

#include "tests/runtime/test_data.h"

namespace l2l::runtime {
namespace {

using test::bad_input;
using test::Data;

constexpr const char* kBert = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n";

// A BERT of as many tokens as the list.
Options options_with(const std::string& tokenizer, std::int64_t vocabulary = 7) {
  Options options;
  options.model.architecture = "bert";
  options.model.vocabulary = vocabulary;
  options.data.train = {"texts.jsonl"};
  options.data.tokenizer = tokenizer;
  return options;
}

std::int64_t mask_of(Options options) {
  set_mask_token(options);
  return options.data.mask_token;
}

TEST(MaskToken, IsTheTokenizersOwn) {
  const Data data;
  data.write("bert/vocab.txt", kBert);
  EXPECT_EQ(mask_of(options_with(data.path("bert"))), 4);
  EXPECT_EQ(mask_of(options_with(data.path("bert/vocab.txt"))), 4);
  data.write("roberta/vocab.json", R"({"<s>": 0, "</s>": 1, "<unk>": 2, "a": 3, "<mask>": 4, "b": 5})");
  data.write("roberta/merges.txt", "#version: 0.2\n");
  EXPECT_EQ(mask_of(options_with(data.path("roberta"))), 4);
  data.write("whole/tokenizer.json",
             R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                 "max_input_chars_per_word": 9, "vocab": {"[UNK]": 0, "[M]": 1, "a": 2}},
                 "added_tokens": [{"id": 1, "content": "[M]", "special": true}]})");
  data.write("whole/tokenizer_config.json", R"({"mask_token": {"content": "[M]"}})");
  EXPECT_EQ(mask_of(options_with(data.path("whole"))), 1);
}

TEST(MaskToken, IsTheLastOneWhereThatIsFree) {
  const Data data;
  data.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n");
  const std::string path = data.path("vocab.txt");
  EXPECT_EQ(mask_of(options_with(path)), -1);
  const std::string message = bad_input([&] { mask_of(options_with(path, 6)); });
  EXPECT_SAYS(message, path + ": has no token \"[MASK]\" or \"<mask>\"");
  EXPECT_SAYS(message, "set data.mask_token to its id");
  data.write("tokenizer_config.json", R"({"mask_token": "[M]"})");
  EXPECT_SAYS(bad_input([&] { mask_of(options_with(path, 6)); }), "has no token \"[M]\";");
  data.write("tokenizer_config.json", R"({"mask_token": 5})");
  EXPECT_SAYS(bad_input([&] { mask_of(options_with(path, 6)); }), "has no token \"[MASK]\"");
}

TEST(MaskToken, IsLookedForOnlyWhereItIsUsed) {
  const std::string missing = "/nowhere/at/all";
  EXPECT_SAYS(bad_input([&] { mask_of(options_with(missing)); }), missing);
  EXPECT_EQ(mask_of(options_with("bytes")), -1);
  Options options = options_with(missing);
  options.data.mask_token = 3;
  EXPECT_EQ(mask_of(options), 3);
  options = options_with(missing);
  options.model.head = "classification";
  EXPECT_EQ(mask_of(options), -1);
  options = options_with(missing);
  options.model.architecture = "gpt2";
  EXPECT_EQ(mask_of(options), -1);
  options = options_with(missing);
  options.data.train.clear();
  EXPECT_EQ(mask_of(options), -1);
}

TEST(MaskToken, IsBelowTheModelsVocabulary) {
  const Data data;
  data.write("vocab.txt", kBert);
  EXPECT_SAYS(bad_input([&] { mask_of(options_with(data.path("vocab.txt"), 4)); }),
              "its token \"[MASK]\" is 4, which is not below model.vocabulary = 4");
}

}  // namespace
}  // namespace l2l::runtime
