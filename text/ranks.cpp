#include <algorithm>

#include "l2l/errors.h"
#include "text/base64.h"
#include "text/byte_characters.h"
#include "text/pipeline.h"
#include "text/tokenizer_files.h"

namespace l2l::text {
namespace {

// The regular expressions and special tokens of the encodings that are published as lists of ranks.
struct Encoding {
  std::size_t ranks;
  const char* regex;
  std::vector<std::pair<const char*, TokenId>> special;
};

const char* const kCl100k =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
    "\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s";
const char* const kLlama3 =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const char* const kO200k =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|"
    "'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|"
    "'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

const std::vector<Encoding>& encodings() {
  static const std::vector<Encoding> known = {
      {50256, kGpt2Regex, {{"<|endoftext|>", 50256}}},
      {50280, kGpt2Regex, {{"<|endoftext|>", 50256}}},
      {100256,
       kCl100k,
       {{"<|endoftext|>", 100257},
        {"<|fim_prefix|>", 100258},
        {"<|fim_middle|>", 100259},
        {"<|fim_suffix|>", 100260},
        {"<|endofprompt|>", 100276}}},
      {199998, kO200k, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}},
      {128000,
       kLlama3,
       {{"<|begin_of_text|>", 128000},
        {"<|end_of_text|>", 128001},
        {"<|start_header_id|>", 128006},
        {"<|end_header_id|>", 128007},
        {"<|eom_id|>", 128008},
        {"<|eot_id|>", 128009},
        {"<|python_tag|>", 128010}}}};
  return known;
}

struct Ranks {
  Vocabulary vocabulary;  // in characters that stand for bytes
  std::vector<std::string> tokens;
};

Ranks read(const std::filesystem::path& file, const std::string& text) {
  Ranks ranks;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::string place = file.string() + ": line " + std::to_string(++number);
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (line.empty()) continue;
    const std::size_t space = line.find(' ');
    const std::optional<std::string> token = decode_base64(line.substr(0, space));
    const std::string digits(space == std::string_view::npos ? std::string_view() : line.substr(space + 1));
    const bool good = token && !token->empty() && !digits.empty() && digits.size() < 9 &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
    if (!good) throw BadInput(place + ": expected a token in base64 and its rank");
    try {
      ranks.vocabulary.add(to_byte_characters(*token), std::stoi(digits));
    } catch (const BadInput& error) {
      throw BadInput(place + ": " + error.what());
    }
    ranks.tokens.push_back(*token);
  }
  return ranks;
}

// Two tokens merge when the two together are one; that one's rank decides when.
std::vector<Merge> merges_of(const Ranks& ranks) {
  std::vector<Merge> merges;
  for (const std::string& token : ranks.tokens) {
    const TokenId merged = *ranks.vocabulary.find(to_byte_characters(token));
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const std::optional<TokenId> left = ranks.vocabulary.find(to_byte_characters(token.substr(0, cut)));
      if (!left) continue;
      const std::optional<TokenId> right = ranks.vocabulary.find(to_byte_characters(token.substr(cut)));
      if (right) merges.push_back({*left, *right, merged});
    }
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) { return a.merged < b.merged; });
  return merges;
}

}  // namespace

std::unique_ptr<Tokenizer> open_ranks(const std::filesystem::path& file) {
  Ranks ranks = read(file, read_tokenizer_file(file));
  const auto known = std::find_if(encodings().begin(), encodings().end(),
                                  [&](const Encoding& encoding) { return encoding.ranks == ranks.tokens.size(); });
  if (known == encodings().end()) {
    throw BadInput(file.string() + ": " + std::to_string(ranks.tokens.size()) +
                   " ranks are those of no encoding that is known (r50k, p50k, cl100k, o200k, Llama 3); convert it to "
                   "a tokenizer.json");
  }
  PipelineParts parts;
  for (const auto& [content, id] : known->special) {
    AddedToken token;
    token.content = content;
    token.id = id;
    token.special = true;
    parts.added.push_back(token);
  }
  BpeSettings settings;
  settings.merges = merges_of(ranks);
  settings.ignore_merges = true;
  parts.pre_tokenizer = make_byte_level_pre_tokenizer(known->regex, /*add_prefix_space=*/false);
  parts.model = make_bpe(std::move(ranks.vocabulary), std::move(settings));
  parts.decoder = make_byte_level_decoder();
  return make_pipeline(std::move(parts));
}

}  // namespace l2l::text
