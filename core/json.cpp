#include "core/json.h"

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

}  // namespace l2l
