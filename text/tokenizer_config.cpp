#include "text/tokenizer_config.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "core/files.h"
#include "l2l/errors.h"
#include "text/tokenizer_files.h"

namespace l2l::text {
namespace {

constexpr const char *kAdded = "added_tokens.json", *kSpecialMap = "special_tokens_map.json";

std::filesystem::path file_in(const std::filesystem::path& folder) { return folder / "tokenizer_config.json"; }

nlohmann::json read(const std::filesystem::path& file) {
  if (!is_there(file)) return nlohmann::json::object();
  nlohmann::json json = parse_json(read_tokenizer_file(file));
  if (!json.is_object()) throw BadInput(file.string() + ": is not a JSON object in UTF-8");
  return json;
}

// Adds the texts of the tokens that `value` names: strings, objects with their content, lists of these.
void add_texts(const nlohmann::json& value, std::set<std::string>& texts) {
  if (value.is_string()) texts.insert(value.get<std::string>());
  if (value.is_object() && value.contains("content")) add_texts(value.at("content"), texts);
  if (!value.is_array()) return;
  for (const nlohmann::json& one : value) add_texts(one, texts);
}

void add_special(const nlohmann::json& settings, std::set<std::string>& texts) {
  for (const char* const key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token",
                                "mask_token", "additional_special_tokens", "extra_special_tokens"}) {
    if (settings.contains(key)) add_texts(settings.at(key), texts);
  }
}

// What added_tokens.json says of a token of the vocabulary, or of one of its ids, must be true.
void check_id(const AddedToken& token, std::optional<TokenId> known, std::int64_t size, const std::string& place) {
  if (known ? *known == token.id : token.id >= size) return;
  throw BadInput(place + ": " + json_text(nlohmann::json(token.content)) + " has the id " + std::to_string(token.id) +
                 (known ? ", but the vocabulary gives it " + std::to_string(*known)
                        : ", which is one of the vocabulary's " + std::to_string(size)) +
                 ": take the file that was saved with this vocabulary, or remove it");
}

}  // namespace

TokenizerConfig::TokenizerConfig(const std::filesystem::path& folder)
    : folder_(folder), json_(read(file_in(folder))), reader_(json_, file_in(folder).string() + ": tokenizer_config") {}

std::vector<AddedToken> TokenizerConfig::listed_tokens() const {
  const JsonReader by_id = reader_.object("added_tokens_decoder");
  std::vector<AddedToken> tokens;
  for (const auto& [digits, _] : json_.at("added_tokens_decoder").items()) {
    const JsonReader token = by_id.object(digits.c_str());
    TokenId id = 0;
    const char* const end = digits.data() + digits.size();
    const auto [past, error] = std::from_chars(digits.data(), end, id);
    if (error != std::errc() || past != end || id < 0 || id >= kMostTokens) token.refuse("its name is not an id");
    tokens.push_back(read_added_token(token));
    tokens.back().id = id;
  }
  return tokens;
}

// {TOKEN: ID}. The special ones are those that are named as such elsewhere.
std::vector<AddedToken> TokenizerConfig::tokens_of_older_file() const {
  const nlohmann::json ids = read(folder_ / kAdded);
  const JsonReader reader(ids, place_of_added());
  std::set<std::string> special;
  if (!ids.empty()) {
    add_special(json_, special);
    add_special(read(folder_ / kSpecialMap), special);
  }
  std::vector<AddedToken> tokens;
  for (const auto& [content, _] : ids.items()) {
    AddedToken token;
    token.content = content;
    token.id = static_cast<TokenId>(reader.integer(content.c_str(), kMostTokens - 1));
    token.special = special.count(content) > 0;
    token.normalized = !token.special;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::vector<AddedToken> TokenizerConfig::added_tokens(
    const std::function<std::optional<TokenId>(const std::string&)>& find, std::int64_t size) const {
  std::vector<AddedToken> tokens = lists_added() ? listed_tokens() : tokens_of_older_file();
  std::sort(tokens.begin(), tokens.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  if (lists_added()) return tokens;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    check_id(tokens[i], find(tokens[i].content), size, place_of_added());
    if (i == 0 || tokens[i].id != tokens[i - 1].id) continue;
    throw BadInput(place_of_added() + ": id " + std::to_string(tokens[i].id) + " is that of two tokens");
  }
  return tokens;
}

std::string TokenizerConfig::place_of_added() const {
  return lists_added() ? reader_.place() + ".added_tokens_decoder" : (folder_ / kAdded).string() + ": added_tokens";
}

std::string TokenizerConfig::class_among(std::initializer_list<std::string_view> known) const {
  const std::string full = reader_.string_or("tokenizer_class", "");
  const std::string name = full.ends_with("Fast") ? full.substr(0, full.size() - 4) : full;
  if (name.empty() || std::find(known.begin(), known.end(), name) != known.end()) return name;
  reader_.refuse("tokenizer_class: " + json_text(nlohmann::json(full)) +
                 " makes more of the vocabulary beside it than is known here; save a tokenizer.json by "
                 "transformers: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)");
}

}  // namespace l2l::text
