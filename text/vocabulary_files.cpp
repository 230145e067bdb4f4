#include "text/vocabulary_files.h"

#include <algorithm>

#include "core/error_place.h"
#include "l2l/errors.h"
#include "text/characters.h"
#include "text/pipeline.h"
#include "text/tokenizer_files.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

// Calls take(line, number from 1) for each line, without its end.
template <typename Take>
void for_each_line(const std::string& text, const Take& take) {
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    take(line, ++number);
    begin = end + 1;
  }
}

// As Hugging Face's library reads a line of a vocabulary.
std::string_view without_space_behind(std::string_view line) {
  while (!line.empty() && is_whitespace(last_code_point(line).value)) line.remove_suffix(last_code_point(line).bytes);
  return line;
}

std::string read_utf8(const std::filesystem::path& file) {
  std::string text = read_tokenizer_file(file);
  if (valid_prefix(text) != text.size()) {
    throw BadInput(file.string() + ": is not UTF-8 at byte " + std::to_string(valid_prefix(text)));
  }
  return text;
}

// The special tokens of these names, as far as they are in the vocabulary, and those that are listed beside it.
std::vector<AddedToken> special_and_added(const Vocabulary& vocabulary, const std::vector<std::string>& special,
                                          const TokenizerConfig& config) {
  AddedTokens tokens(vocabulary, vocabulary.count());
  for (const std::string& content : special) {
    AddedToken token;
    token.content = content;
    token.special = true;
    token.lstrip = content == "<mask>";
    if (vocabulary.find(content)) tokens.add(std::move(token), "");
  }
  const auto find = [&](const std::string& text) { return vocabulary.find(text); };
  for (AddedToken& token : config.added_tokens(find, vocabulary.size())) {
    tokens.add(std::move(token), config.place_of_added());
  }
  return tokens.take();
}

// What the config says of normalization.
BertNormalization normalization_of(const JsonReader& config) {
  BertNormalization settings;
  settings.lowercase = config.boolean_or("do_lower_case", true);
  settings.chinese = config.boolean_or("tokenize_chinese_chars", true);
  settings.strip_accents = config.boolean_or("strip_accents", settings.lowercase);
  return settings;
}

constexpr const char* kGpt2 = "GPT2Tokenizer";

// Whether the config says that the tokenizer is GPT-2's, not RoBERTa's or one of its kind.
bool is_gpt2(const TokenizerConfig& config) {
  const std::string name = config.class_among({kGpt2, "CodeGenTokenizer", "RobertaTokenizer", "BartTokenizer",
                                               "LEDTokenizer", "LongformerTokenizer", "MvpTokenizer"});
  return name == kGpt2 || name == "CodeGenTokenizer";
}

// The text of a special token that the config of a GPT-2 names: a string, or an object with its content.
std::string named_token(const JsonReader& config, const char* key) {
  const nlohmann::json* const value = config.find(key);
  if (value != nullptr && value->is_object()) return config.object(key).string("content");
  return config.string_or(key, key == std::string_view("pad_token") ? "" : "<|endoftext|>");
}

}  // namespace

std::vector<AddedToken> tokens_beside(const Vocabulary& vocabulary, const TokenizerConfig& config) {
  std::vector<std::string> special;
  if (is_gpt2(config)) {
    for (const char* const key : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
      special.push_back(named_token(config.json(), key));
    }
  } else {
    special = {"<s>", "</s>", "<pad>", "<unk>", "<mask>"};
    if (config.json().find("tokenizer_class") == nullptr) special.push_back("<|endoftext|>");  // may be GPT-2's
  }
  return special_and_added(vocabulary, special, config);
}

SurroundingTokens surrounding_of(const Vocabulary& vocabulary, const std::vector<AddedToken>& added,
                                 const TokenizerConfig& config) {
  SurroundingTokens surrounding;
  if (is_gpt2(config)) {
    const auto put = [&](const char* adds, const char* key, std::vector<TokenId>& ids) {
      if (!config.json().boolean_or(adds, false)) return;
      const std::string content = named_token(config.json(), key);
      const auto found =
          std::find_if(added.begin(), added.end(), [&](const AddedToken& token) { return token.content == content; });
      if (found == added.end()) config.json().refuse(std::string(key) + ": is no token, but " + adds + " is true");
      ids.push_back(found->id);
    };
    put("add_bos_token", "bos_token", surrounding.before);
    put("add_eos_token", "eos_token", surrounding.behind);
  } else if (const std::optional<TokenId> begin = vocabulary.find("<s>"), end = vocabulary.find("</s>"); begin && end) {
    surrounding = {{*begin}, {*end}};
  }
  return surrounding;
}

std::unique_ptr<Tokenizer> open_vocabulary_list(const std::filesystem::path& file) {
  const std::string text = read_utf8(file);
  Vocabulary vocabulary;
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    if (static_cast<std::int64_t>(number) > kMostTokens) throw BadInput(file.string() + ": has too many lines");
    vocabulary.add(std::string(without_space_behind(line)), static_cast<TokenId>(number - 1));
  });
  const TokenizerConfig config(file.parent_path());
  config.class_among({"BertTokenizer", "ConvBertTokenizer", "DistilBertTokenizer", "DPRContextEncoderTokenizer",
                      "DPRQuestionEncoderTokenizer", "ElectraTokenizer", "LayoutLMTokenizer", "LxmertTokenizer",
                      "MobileBertTokenizer", "SqueezeBertTokenizer"});
  PipelineParts parts;
  parts.added = special_and_added(vocabulary, {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}, config);
  if (!vocabulary.find("[UNK]")) throw BadInput(file.string() + ": has no line [UNK], so it is no vocabulary of BERT");
  const std::optional<TokenId> begin = vocabulary.find("[CLS]"), end = vocabulary.find("[SEP]");
  if (begin && end) parts.surrounding = {{*begin}, {*end}};
  parts.normalizer = make_bert_normalizer(normalization_of(config.json()));
  parts.pre_tokenizer = make_bert_pre_tokenizer();
  parts.model = make_word_piece(std::move(vocabulary), WordPieceSettings());
  parts.decoder = make_word_piece_decoder("##", /*cleanup=*/true);
  return make_pipeline(std::move(parts));
}

std::unique_ptr<Tokenizer> open_vocabulary_and_merges(const std::filesystem::path& vocabulary_file,
                                                      const std::filesystem::path& merges_file) {
  const nlohmann::json json = {{"vocab", parse_json(read_tokenizer_file(vocabulary_file))}};
  Vocabulary vocabulary(JsonReader(json, vocabulary_file.string() + ": tokenizer"));
  BpeSettings settings;
  naming_file(merges_file.string(), [&] {
    const std::string merges = read_utf8(merges_file);
    for_each_line(merges, [&](std::string_view line, std::size_t number) {
      if (line.empty() || (number == 1 && line.starts_with("#version"))) return;
      const std::string place = merges_file.string() + ": line " + std::to_string(number);
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos) throw BadInput(place + ": expected two tokens with a space between them");
      settings.merges.push_back(read_merge(vocabulary, line.substr(0, space), line.substr(space + 1), "", place));
    });
  });
  const TokenizerConfig config(vocabulary_file.parent_path());
  PipelineParts parts;
  parts.added = tokens_beside(vocabulary, config);
  parts.surrounding = surrounding_of(vocabulary, parts.added, config);
  parts.pre_tokenizer = make_byte_level_pre_tokenizer(kGpt2Regex, config.json().boolean_or("add_prefix_space", false));
  parts.model = make_bpe(std::move(vocabulary), std::move(settings));
  parts.decoder = make_byte_level_decoder();
  return make_pipeline(std::move(parts));
}

}  // namespace l2l::text
