#include <array>

#include "core/error_place.h"
#include "core/files.h"
#include "l2l/errors.h"
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

std::string read_utf8(const std::filesystem::path& file) {
  std::string text = read_tokenizer_file(file);
  if (valid_prefix(text) != text.size()) {
    throw BadInput(file.string() + ": is not UTF-8 at byte " + std::to_string(valid_prefix(text)));
  }
  return text;
}

void add_special(const Vocabulary& vocabulary, std::string_view content, std::vector<AddedToken>& tokens) {
  const std::optional<TokenId> id = vocabulary.find(content);
  if (!id) return;
  AddedToken token;
  token.content = content;
  token.id = *id;
  token.special = true;
  tokens.push_back(token);
}

// What `tokenizer_config.json` beside a vocabulary says of normalization.
BertNormalization normalization_of(const std::filesystem::path& folder) {
  BertNormalization settings;
  const std::filesystem::path file = folder / "tokenizer_config.json";
  if (!is_there(file)) return settings;
  const nlohmann::json json = parse_json(read_tokenizer_file(file));
  if (json.is_discarded()) throw BadInput(file.string() + ": is not JSON in UTF-8");
  const JsonReader config(json, file.string() + ": tokenizer_config");
  settings.lowercase = config.boolean_or("do_lower_case", true);
  settings.chinese = config.boolean_or("tokenize_chinese_chars", true);
  settings.strip_accents = config.boolean_or("strip_accents", settings.lowercase);
  return settings;
}

}  // namespace

std::unique_ptr<Tokenizer> open_vocabulary_list(const std::filesystem::path& file) {
  const std::string text = read_utf8(file);
  Vocabulary vocabulary;
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    if (static_cast<std::int64_t>(number) > kMostTokens) throw BadInput(file.string() + ": has too many lines");
    vocabulary.add(std::string(line), static_cast<TokenId>(number - 1));
  });
  PipelineParts parts;
  for (const char* const name : {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}) {
    add_special(vocabulary, name, parts.added);
  }
  if (!vocabulary.find("[UNK]")) throw BadInput(file.string() + ": has no line [UNK], so it is no vocabulary of BERT");
  const std::optional<TokenId> begin = vocabulary.find("[CLS]"), end = vocabulary.find("[SEP]");
  if (begin && end) parts.surrounding = {{*begin}, {*end}};
  parts.normalizer = make_bert_normalizer(normalization_of(file.parent_path()));
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
  PipelineParts parts;
  for (const char* const name : {"<|endoftext|>", "<s>", "</s>", "<pad>", "<unk>", "<mask>"}) {
    add_special(vocabulary, name, parts.added);
  }
  for (AddedToken& token : parts.added) token.lstrip = token.content == "<mask>";
  const std::optional<TokenId> begin = vocabulary.find("<s>"), end = vocabulary.find("</s>");
  if (begin && end) parts.surrounding = {{*begin}, {*end}};  // RoBERTa's
  parts.pre_tokenizer = make_byte_level_pre_tokenizer(kGpt2Regex, /*add_prefix_space=*/false);
  parts.model = make_bpe(std::move(vocabulary), std::move(settings));
  parts.decoder = make_byte_level_decoder();
  return make_pipeline(std::move(parts));
}

}  // namespace l2l::text
