#include "base/json.h"

#include <algorithm>

namespace l2l {

bool nests_too_deep(std::string_view text, int most) {
  // Most rows of data have fewer brackets, which is faster to see.
  const auto count = [&](char bracket) { return std::count(text.begin(), text.end(), bracket); };
  if (count('{') + count('[') <= most) return false;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      i += c == '\\';
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > most) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

std::string why_discarded(std::string_view text, const std::string& otherwise) {
  return nests_too_deep(text) ? "is nested deeper than " + std::to_string(kMostJsonNesting) + " levels" : otherwise;
}

nlohmann::json parse_json(std::string_view text, const nlohmann::json::parser_callback_t& keep) {
  if (nests_too_deep(text)) return nlohmann::json::value_t::discarded;
  return nlohmann::json::parse(text.begin(), text.end(), keep, /*allow_exceptions=*/false);
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
