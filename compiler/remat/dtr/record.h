// One line of a trace: a JSON object with checked access to its fields. Thread-bound.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace l2l::compiler::remat::dtr {

class Record {
 public:
  // `where` is FILE:LINE. Like all functions here, throws BadInput naming `where`, the field and the reason.
  Record(std::string_view line, std::string where);

  const std::string& text(const char* field) const;
  std::vector<std::string> texts(const char* field) const;
  // An integer from `least` to `most`, as a JSON number or in a string.
  std::int64_t number(const char* field, std::int64_t least, std::int64_t most) const;
  std::vector<std::int64_t> numbers(const char* field, std::int64_t least, std::int64_t most) const;

  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const nlohmann::json& at(const char* field) const;
  const nlohmann::json& list(const char* field) const;
  const std::string& text_of(const nlohmann::json& value, const char* field) const;
  std::int64_t number_of(const nlohmann::json& value, const char* field, std::int64_t least, std::int64_t most) const;

  nlohmann::json object_;
  std::string where_;
};

}  // namespace l2l::compiler::remat::dtr
