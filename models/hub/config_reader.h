// Typed access to the keys of a config.json.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "core/bytes.h"

namespace l2l::models {

// The text of a file, and the object that it holds. Throw BadInput naming the file when it is longer than `most` or not
// one; `what`: what such a file is, for messages.
std::string read_text(const std::filesystem::path& file, Bytes most, std::string_view what);
nlohmann::json read_json_object(const std::filesystem::path& file, Bytes most, std::string_view what);

// One object of the file. Every function throws BadInput naming file and key when the value has another type or lies
// outside its range. A null counts as missing unless is_null() tells them apart. Immutable; a view of the JSON value,
// which must outlive it.
class ConfigReader {
 public:
  ConfigReader(const std::filesystem::path& file, const nlohmann::json& object, std::string prefix = "")
      : file_(file.string()), object_(object), prefix_(std::move(prefix)) {}

  bool empty() const { return object_.empty(); }
  bool has(std::string_view key) const { return find(key) != nullptr; }
  bool is_null(std::string_view key) const;  // it is there, as null
  // Nothing when it is missing.
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most) const;
  std::optional<double> real(std::string_view key, double least, double most = 1e30) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::vector<std::string>> texts(std::string_view key) const;
  std::optional<ConfigReader> object(std::string_view key) const;

  // BadInput: "FILE: KEY: REASON".
  [[noreturn]] void refuse(std::string_view key, const std::string& reason) const;

 private:
  const nlohmann::json* find(std::string_view key) const;
  [[noreturn]] void refuse_type(std::string_view key, const nlohmann::json& value, const std::string& expected) const;

  std::string file_;
  const nlohmann::json& object_;
  std::string prefix_;  // of nested objects: "rope_parameters."
};

}  // namespace l2l::models
