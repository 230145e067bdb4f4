// What tokenizer files look for in a text: a string, or a regular expression.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>

#include "text/json_reader.h"
#include "text/regex.h"

namespace l2l::text {

// Immutable.
class Pattern {
 public:
  explicit Pattern(std::string text) : pattern_(std::move(text)) {}
  explicit Pattern(Regex regex) : pattern_(std::move(regex)) {}
  // The field "pattern": {"String": ...} or {"Regex": ...}. Throws BadInput.
  explicit Pattern(const JsonReader& owner);

  // Calls found(begin, end) for every match, from left to right. A match of nothing (begin == end) counts unless it is
  // right behind another match or the text is empty, as in Hugging Face's library.
  template <typename Found>
  void for_each(std::string_view text, const Found& found) const {
    if (text.empty()) return;
    std::size_t last_end = std::string_view::npos;
    for (std::size_t from = 0; from <= text.size();) {
      const std::optional<Match> match = next(text, from);
      if (!match) return;
      const bool is_empty = match->begin == match->end;
      if (!is_empty || match->end != last_end) found(match->begin, match->end);
      last_end = match->end;
      from = is_empty ? past(text, match->end) : match->end;
    }
  }

  // `text` with `by` for every match.
  std::string replace(std::string_view text, std::string_view by) const;

 private:
  std::optional<Match> next(std::string_view text, std::size_t from) const;
  // Where a search goes on behind an empty match.
  static std::size_t past(std::string_view text, std::size_t place);

  std::variant<std::string, Regex> pattern_;
};

}  // namespace l2l::text
