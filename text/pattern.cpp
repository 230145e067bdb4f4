#include "text/pattern.h"

#include "l2l/errors.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

std::variant<std::string, Regex> read(const JsonReader& owner) {
  const JsonReader pattern = owner.object("pattern");
  if (pattern.find("String") != nullptr) return pattern.string("String");
  try {
    return Regex(pattern.string("Regex"));
  } catch (const BadInput& error) {
    pattern.refuse(error.what());
  }
}

}  // namespace

Pattern::Pattern(const JsonReader& owner) : pattern_(read(owner)) {}

std::string Pattern::replace(std::string_view text, std::string_view by) const {
  std::string result;
  std::size_t end = 0;
  for_each(text, [&](std::size_t begin, std::size_t past) {
    result += text.substr(end, begin - end);
    result += by;
    end = past;
  });
  result += text.substr(end);
  return result;
}

std::optional<Match> Pattern::next(std::string_view text, std::size_t from) const {
  if (const Regex* const regex = std::get_if<Regex>(&pattern_)) return regex->find(text, from);
  const std::string& searched = std::get<std::string>(pattern_);
  const std::size_t begin = text.find(searched, from);
  if (begin == std::string_view::npos) return std::nullopt;
  return Match{begin, begin + searched.size()};
}

std::size_t Pattern::past(std::string_view text, std::size_t place) {
  return place < text.size() ? place + first_code_point(text.substr(place)).bytes : place + 1;
}

}  // namespace l2l::text
