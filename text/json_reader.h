// Reads the fields of a tokenizer file. What is missing, of another type or not built is BadInput that names file and
// field.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace l2l::text {

// An object within the file. Immutable; refers to the JSON it was made from.
class JsonReader {
 public:
  // `place`: the file's name and the path of the field, as messages show it.
  JsonReader(const nlohmann::json& json, std::string place);

  [[noreturn]] void refuse(const std::string& reason) const;
  // Throws unless there is such a field.
  const nlohmann::json& at(const char* field) const;
  // Null where there is none, or it is null.
  const nlohmann::json* find(const char* field) const;

  std::string type() const { return string("type"); }
  std::string string(const char* field) const;
  std::string string_or(const char* field, const std::string& otherwise) const;
  bool boolean(const char* field) const;
  bool boolean_or(const char* field, bool otherwise) const;
  double number(const char* field) const;
  // Within [0, most].
  std::int64_t integer(const char* field, std::int64_t most) const;
  JsonReader object(const char* field) const;
  std::vector<JsonReader> objects(const char* field) const;
  const std::string& place() const { return place_; }

 private:
  std::string within(const char* field) const { return place_ + "." + field; }

  const nlohmann::json* json_;
  std::string place_;
};

}  // namespace l2l::text
