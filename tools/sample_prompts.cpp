#include "tools/sample_prompts.h"

#include <iostream>
#include <iterator>

#include "base/json.h"
#include "core/files.h"
#include "l2l/errors.h"
#include "runtime/data/chat_templates.h"
#include "runtime/export/source.h"
#include "text/utf8.h"

namespace l2l::tools {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kMostBytes = Bytes{1} << 30;  // of a file of prompts
constexpr std::string_view kReplacement = "\uFFFD";

std::string read_prompt(const std::string& line, bool json, const std::string& place) {
  if (!json) return line;
  const nlohmann::json object = parse_json(line);
  const auto prompt = object.is_object() ? object.find("prompt") : object.end();
  if (!object.is_object() || prompt == object.end() || !prompt->is_string()) {
    throw BadInput(place + ": expected a JSON object with a text \"prompt\"");
  }
  return prompt->get<std::string>();
}

// Of a JSON file: its eos_token_id, a number or a list of them.
std::vector<std::int32_t> ids_in(const fs::path& file) {
  std::vector<std::int32_t> ids;
  if (!is_there(file)) return ids;
  const nlohmann::json json = parse_json(InputFile(file).text());
  if (!json.is_object()) throw BadInput(file.string() + ": is not a JSON object in UTF-8");
  const auto value = json.find("eos_token_id");
  if (value == json.end()) return ids;
  const nlohmann::json list = value->is_array() ? *value : nlohmann::json::array({*value});
  for (const nlohmann::json& id : list) {
    if (id.is_number_unsigned() && id.get<std::uint64_t>() <= INT32_MAX) ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace

std::vector<Prompt> read_prompts(const fs::path& file) {
  const InputFile input(file);
  if (input.bytes() > kMostBytes) throw BadInput(file.string() + ": is too long for a file of prompts");
  const std::string text = input.text(), extension = file.extension().string();
  const bool json = extension == ".jsonl" || extension == ".ndjson";
  std::vector<Prompt> prompts;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    begin = end + 1;
    ++number;
    const std::string place = file.string() + ": line " + std::to_string(number);
    if (!line.empty()) prompts.push_back({read_prompt(line, json, place), place});
  }
  if (prompts.empty()) throw BadInput(file.string() + ": has no prompt");
  return prompts;
}

std::string prompt_of(const std::string& argument) {
  if (argument != "-") return argument;
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<std::int32_t> token_of(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int32_t> ids;
  if (!text.empty()) ids = tokenizer.encode(text);
  if (ids.size() != 1) ids.clear();
  return ids;
}

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<std::int32_t> ids)
    : tokenizer_(tokenizer), ids_(std::move(ids)), shown_(tokenizer_.decode(ids_).size()) {}

std::string TextStream::add(std::int32_t id) {
  ids_.push_back(id);
  const std::string text = tokenizer_.decode(ids_);
  return text.ends_with(kReplacement) ? std::string() : behind_shown(text.substr(0, text::finished_prefix(text)));
}

std::string TextStream::finish() { return behind_shown(tokenizer_.decode(ids_)); }

std::string TextStream::behind_shown(const std::string& text) {
  std::string added = text.size() > shown_ ? text.substr(shown_) : std::string();
  shown_ = std::max(shown_, text.size());
  return added;
}

std::vector<std::int32_t> stop_tokens(const fs::path& path, const Tokenizer* tokenizer) {
  const fs::path folder = runtime::export_folder(path);
  std::vector<std::int32_t> stop = ids_in(folder / "generation_config.json");
  if (stop.empty()) stop = ids_in(folder / "config.json");
  if (tokenizer == nullptr) return stop;
  for (const std::int32_t id : token_of(*tokenizer, runtime::special_token(folder, "eos_token"))) stop.push_back(id);
  return stop;
}

}  // namespace l2l::tools
