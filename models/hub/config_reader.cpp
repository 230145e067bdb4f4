#include "models/hub/config_reader.h"

#include <cmath>

#include "core/files.h"
#include "l2l/errors.h"

namespace l2l::models {
namespace {

constexpr std::size_t kMostShown = 60;  // characters of a value in a message

std::string show(const nlohmann::json& value) {
  std::string text = json_text(value);
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "...";
  return text;
}

}  // namespace

std::string read_text(const std::filesystem::path& path, Bytes most, std::string_view what) {
  const InputFile file(path);
  if (file.bytes() <= most) return file.text();
  throw BadInput(path.string() + ": longer than " + format_bytes(most) + "; not " + std::string(what));
}

nlohmann::json read_json_object(const std::filesystem::path& path, Bytes most, std::string_view what) {
  const std::string text = read_text(path, most, what);
  nlohmann::json json = parse_json(text);
  if (json.is_object()) return json;
  if (is_git_lfs_pointer(text)) throw BadInput(path.string() + ": " + kGitLfsPointer);
  throw BadInput(path.string() + ": " +
                 why_discarded(text, "is not a JSON object in UTF-8 (NaN and Infinity are not JSON)"));
}

void ConfigReader::refuse(std::string_view key, const std::string& reason) const {
  throw BadInput(file_ + ": " + prefix_ + std::string(key) + ": " + reason);
}

void ConfigReader::refuse_type(std::string_view key, const nlohmann::json& value, const std::string& expected) const {
  refuse(key, "expected " + expected + ", found " + show(value));
}

bool ConfigReader::is_null(std::string_view key) const {
  const auto value = object_.find(key);
  return value != object_.end() && value->is_null();
}

const nlohmann::json* ConfigReader::find(std::string_view key) const {
  const auto value = object_.find(key);
  return value == object_.end() || value->is_null() ? nullptr : &*value;
}

std::optional<std::int64_t> ConfigReader::integer(std::string_view key, std::int64_t least, std::int64_t most) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto refuse_value = [&] {
    refuse_type(key, *value, "an integer from " + std::to_string(least) + " to " + std::to_string(most));
  };
  // Some files write whole numbers as 2048.0.
  const double real = value->is_number_float() ? value->get<double>() : 0;
  const bool whole =
      value->is_number_integer() || (value->is_number_float() && std::trunc(real) == real && std::abs(real) < 1e15);
  if (!whole) refuse_value();
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(most)) refuse_value();
  const auto number = value->get<std::int64_t>();
  if (number < least || number > most) refuse_value();
  return number;
}

std::optional<double> ConfigReader::real(std::string_view key, double least, double most) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : least - 1;
  if (number < least || number > most) {
    refuse_type(key, *value, "a number from " + show(least) + " to " + show(most));
  }
  return number;
}

std::optional<bool> ConfigReader::boolean(std::string_view key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_type(key, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> ConfigReader::text(std::string_view key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_type(key, *value, "a string");
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> ConfigReader::texts(std::string_view key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> all;
  if (!value->is_array()) refuse_type(key, *value, "an array of strings");
  for (const nlohmann::json& each : *value) {
    if (!each.is_string()) refuse_type(key, *value, "an array of strings");
    all.push_back(each.get<std::string>());
  }
  return all;
}

std::optional<ConfigReader> ConfigReader::object(std::string_view key) const {
  const nlohmann::json* const value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse_type(key, *value, "an object");
  return ConfigReader(file_, *value, prefix_ + std::string(key) + ".");
}

}  // namespace l2l::models
