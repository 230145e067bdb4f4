#include "base/json.h"

namespace l2l {

nlohmann::json parse_json(std::string_view text) {
  return nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

bool parse_json(std::string_view text, nlohmann::json_sax<nlohmann::json>& reader) {
  return nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
}

std::string json_text(const nlohmann::json& json, int indent, bool ascii) {
  return json.dump(indent, ' ', ascii, nlohmann::json::error_handler_t::replace);
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::ordered_json json_of(const std::vector<std::pair<std::string, double>>& members) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : members) object[name] = value;
  return object;
}

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

}  // namespace l2l
