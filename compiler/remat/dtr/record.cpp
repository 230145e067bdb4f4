#include "compiler/remat/dtr/record.h"

#include <charconv>

#include "l2l/errors.h"

namespace l2l::compiler::remat::dtr {
namespace {

constexpr std::size_t kMostShown = 40;  // of what was found, in bytes

// Not what is nested, which may be long.
std::string shown(const nlohmann::json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  const std::string text = json_text(value, -1, /*ascii=*/true);
  return text.size() > kMostShown ? text.substr(0, kMostShown) + "..." : text;
}

}  // namespace

Record::Record(std::string_view line, std::string where) : object_(parse_json(line)), where_(std::move(where)) {
  if (!object_.is_object()) refuse("is not a JSON object");
}

void Record::refuse(const std::string& what) const { throw BadInput(where_ + ": " + what); }

const nlohmann::json& Record::at(const char* field) const {
  const auto found = object_.find(field);
  if (found == object_.end()) refuse(std::string(field) + ": is missing");
  return *found;
}

const nlohmann::json& Record::list(const char* field) const {
  const nlohmann::json& value = at(field);
  if (!value.is_array()) refuse(std::string(field) + ": " + shown(value) + " is not a list");
  return value;
}

const std::string& Record::text_of(const nlohmann::json& value, const char* field) const {
  if (!value.is_string()) refuse(std::string(field) + ": " + shown(value) + " is not a string");
  return value.get_ref<const std::string&>();
}

std::int64_t Record::number_of(const nlohmann::json& value, const char* field, std::int64_t least,
                               std::int64_t most) const {
  const std::string text = value.is_string()           ? value.get_ref<const std::string&>()
                           : value.is_number_integer() ? json_text(value)
                                                       : std::string();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || number < least || number > most) {
    refuse(std::string(field) + ": " + shown(value) + " is not a whole number from " + std::to_string(least) + " to " +
           std::to_string(most));
  }
  return number;
}

const std::string& Record::text(const char* field) const { return text_of(at(field), field); }

std::vector<std::string> Record::texts(const char* field) const {
  std::vector<std::string> result;
  for (const nlohmann::json& value : list(field)) result.push_back(text_of(value, field));
  return result;
}

std::int64_t Record::number(const char* field, std::int64_t least, std::int64_t most) const {
  return number_of(at(field), field, least, most);
}

std::vector<std::int64_t> Record::numbers(const char* field, std::int64_t least, std::int64_t most) const {
  std::vector<std::int64_t> result;
  for (const nlohmann::json& value : list(field)) result.push_back(number_of(value, field, least, most));
  return result;
}

}  // namespace l2l::compiler::remat::dtr
