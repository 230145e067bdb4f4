#include "text/json_reader.h"

#include "l2l/errors.h"

namespace l2l::text {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_type(const std::string& place, const char* expected) {
  throw BadInput(place + ": expected " + expected);
}

std::string string_of(const json& value, const std::string& place) {
  if (!value.is_string()) refuse_type(place, "a string");
  return value.get<std::string>();
}

bool boolean_of(const json& value, const std::string& place) {
  if (!value.is_boolean()) refuse_type(place, "true or false");
  return value.get<bool>();
}

}  // namespace

JsonReader::JsonReader(const json& json, std::string place) : json_(&json), place_(std::move(place)) {
  if (!json.is_object()) refuse_type(place_, "an object");
}

void JsonReader::refuse(const std::string& reason) const { throw BadInput(place_ + ": " + reason); }

const json& JsonReader::at(const char* field) const {
  const auto found = json_->find(field);
  if (found == json_->end()) refuse(std::string("has no field \"") + field + "\"");
  return *found;
}

const json* JsonReader::find(const char* field) const {
  const auto found = json_->find(field);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

std::string JsonReader::string(const char* field) const { return string_of(at(field), within(field)); }

std::string JsonReader::string_or(const char* field, const std::string& otherwise) const {
  const json* const value = find(field);
  return value == nullptr ? otherwise : string_of(*value, within(field));
}

bool JsonReader::boolean(const char* field) const { return boolean_of(at(field), within(field)); }

bool JsonReader::boolean_or(const char* field, bool otherwise) const {
  const json* const value = find(field);
  return value == nullptr ? otherwise : boolean_of(*value, within(field));
}

double JsonReader::number(const char* field) const {
  const json& value = at(field);
  if (!value.is_number()) refuse_type(within(field), "a number");
  return value.get<double>();
}

std::int64_t JsonReader::integer(const char* field, std::int64_t most) const {
  const json& value = at(field);
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
  if (!fits) refuse_type(within(field), ("an integer from 0 to " + std::to_string(most)).c_str());
  return value.get<std::int64_t>();
}

JsonReader JsonReader::object(const char* field) const { return JsonReader(at(field), within(field)); }

std::vector<JsonReader> JsonReader::objects(const char* field) const {
  const json& list = at(field);
  if (!list.is_array()) refuse_type(within(field), "a list");
  std::vector<JsonReader> objects;
  for (const json& element : list) {
    objects.emplace_back(element, within(field) + "[" + std::to_string(objects.size()) + "]");
  }
  return objects;
}

}  // namespace l2l::text
