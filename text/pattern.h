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

  // Calls found(begin, end) for every match that is not empty, from left to right.
  template <typename Found>
  void for_each(std::string_view text, const Found& found) const {
    for (std::size_t from = 0; from <= text.size();) {
      const std::optional<Match> match = next(text, from);
      if (!match) return;
      if (match->begin < match->end) found(match->begin, match->end);
      from = match->end > match->begin ? match->end : past(text, match->end);
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
