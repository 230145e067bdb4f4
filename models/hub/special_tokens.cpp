#include "models/hub/special_tokens.h"

#include <string>
#include <vector>

#include "base/json.h"
#include "core/files.h"
#include "l2l/errors.h"
#include "models/hub/config_reader.h"

namespace l2l::models {
namespace {

constexpr Bytes kMostBytes = 256 << 20;  // of a tokenizer

// A token is written as its text, or as an object with its "content".
std::string text_of(const nlohmann::json& token) {
  if (token.is_string()) return token.get<std::string>();
  return token.is_object() ? token.value("content", std::string()) : std::string();
}

std::vector<std::string> spellings(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "tokenizer_config.json";
  if (is_there(path)) {
    const nlohmann::json json = read_json_object(path, kMostBytes, "a tokenizer");
    const auto token = json.find("mask_token");
    if (token != json.end() && !text_of(*token).empty()) return {text_of(*token)};
  }
  return {"[MASK]", "<mask>"};
}

std::optional<std::int64_t> find_in_json(const std::filesystem::path& path, const std::string& token) {
  const nlohmann::json json = read_json_object(path, kMostBytes, "a tokenizer");
  const auto added = json.find("added_tokens");
  if (added == json.end() || !added->is_array()) return std::nullopt;
  for (const nlohmann::json& entry : *added) {
    if (!entry.is_object() || text_of(entry) != token) continue;
    const auto id = entry.find("id");
    if (id != entry.end() && id->is_number_unsigned()) return id->get<std::int64_t>();
  }
  return std::nullopt;
}

std::optional<std::int64_t> find_line(const std::filesystem::path& path, const std::string& token) {
  const std::string text = read_text(path, kMostBytes, "a tokenizer");
  std::int64_t line = 0;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view word(text.data() + begin, end - begin);
    if (word.ends_with('\r')) word.remove_suffix(1);
    if (word == token) return line;
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> mask_token(const std::filesystem::path& directory) {
  for (const std::string& token : spellings(directory)) {
    std::optional<std::int64_t> id;
    if (is_there(directory / "tokenizer.json")) id = find_in_json(directory / "tokenizer.json", token);
    if (!id && is_there(directory / "vocab.txt")) id = find_line(directory / "vocab.txt", token);
    if (id) return id;
  }
  return std::nullopt;
}

}  // namespace l2l::models
