// JSON by nlohmann's library. Reading and printing it take most of the seconds that the library adds to a file, so they
// are compiled in json.cpp alone: call these functions, not json::parse() and dump().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace l2l {

// Levels of objects and lists in one another, at most; RFC 8259, section 9, leaves the number to readers. Copying,
// comparing and printing a value recurse at each level, so that without a limit a file could overflow the stack.
inline constexpr int kMostJsonNesting = 128;

// Whether `text` has more than `most` levels. It need not be JSON.
bool nests_too_deep(std::string_view text, int most = kMostJsonNesting);
// Why parse_json() discards `text`: "is nested deeper than 128 levels", or else `otherwise`.
std::string why_discarded(std::string_view text, const std::string& otherwise);

// A discarded value (is_discarded()) when `text` is not JSON in UTF-8, or nests too deep.
// `keep` is asked for each key and value (nlohmann::json::parser_callback_t); what it returns false for is left out.
nlohmann::json parse_json(std::string_view text, const nlohmann::json::parser_callback_t& keep = nullptr);
// Hands the tokens of `text` to `reader` one by one, without building a tree; false once one of its calls returned
// false.
bool parse_json(std::string_view text, nlohmann::json_sax<nlohmann::json>& reader);

// `indent`: spaces per level; -1: all on one line. `ascii`: other characters as \uXXXX. Bytes that are not UTF-8 become
// U+FFFD.
std::string json_text(const nlohmann::json& json, int indent = -1, bool ascii = false);
// The same of an object that keeps its members in the order in which they were added.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

// An object of these members, in their order; a NaN becomes null.
nlohmann::ordered_json json_of(const std::vector<std::pair<std::string, double>>& members);

// null without a value.
nlohmann::ordered_json or_null(const std::optional<double>& value);

}  // namespace l2l
