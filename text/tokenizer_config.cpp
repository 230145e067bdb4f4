#include "text/tokenizer_config.h"

#include <algorithm>
#include <charconv>

#include "core/files.h"
#include "l2l/errors.h"
#include "text/tokenizer_files.h"

namespace l2l::text {
namespace {

std::filesystem::path file_in(const std::filesystem::path& folder) { return folder / "tokenizer_config.json"; }

nlohmann::json read(const std::filesystem::path& file) {
  if (!is_there(file)) return nlohmann::json::object();
  nlohmann::json json = parse_json(read_tokenizer_file(file));
  if (!json.is_object()) throw BadInput(file.string() + ": is not a JSON object in UTF-8");
  return json;
}

}  // namespace

TokenizerConfig::TokenizerConfig(const std::filesystem::path& folder)
    : json_(read(file_in(folder))), reader_(json_, file_in(folder).string() + ": tokenizer_config") {}

std::vector<AddedToken> TokenizerConfig::added_tokens() const {
  const nlohmann::json* const listed = reader_.find("added_tokens_decoder");
  if (listed == nullptr) return {};
  const JsonReader by_id = reader_.object("added_tokens_decoder");
  std::vector<AddedToken> tokens;
  for (const auto& [digits, _] : listed->items()) {
    const JsonReader token = by_id.object(digits.c_str());
    TokenId id = 0;
    const char* const end = digits.data() + digits.size();
    const auto [past, error] = std::from_chars(digits.data(), end, id);
    if (error != std::errc() || past != end || id < 0 || id >= kMostTokens) token.refuse("its name is not an id");
    tokens.push_back(read_added_token(token));
    tokens.back().id = id;
  }
  std::sort(tokens.begin(), tokens.end(), [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return tokens;
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
