// JSON by nlohmann's library. Reading and printing it take most of the seconds that the library adds to a file, so they
// are compiled in json.cpp alone: call these functions, not json::parse() and dump().
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace l2l {

// A discarded value (is_discarded()) when `text` is not JSON in UTF-8.
nlohmann::json parse_json(std::string_view text);
// Hands the tokens of `text` to `reader` one by one, without building a tree; false once one of its calls returned
// false.
bool parse_json(std::string_view text, nlohmann::json_sax<nlohmann::json>& reader);

// `indent`: spaces per level; -1: all on one line. `ascii`: other characters as \uXXXX. Bytes that are not UTF-8 become
// U+FFFD.
std::string json_text(const nlohmann::json& json, int indent = -1, bool ascii = false);
// The same of an object that keeps its members in the order in which they were added.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace l2l
