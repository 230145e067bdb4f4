#include <algorithm>
#include <array>

#include "l2l/errors.h"
#include "text/regex.h"

namespace l2l::text {
namespace {

constexpr std::array kCategories = {"C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
                                    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
                                    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};
struct Name {
  std::string_view name, category;
};
// Names that the two libraries do not share, and binary properties.
constexpr Name kNames[] = {{"letter", "L"},
                           {"mark", "M"},
                           {"number", "N"},
                           {"punctuation", "P"},
                           {"punct", "P"},
                           {"symbol", "S"},
                           {"separator", "Z"},
                           {"other", "C"},
                           {"lowercase_letter", "Ll"},
                           {"uppercase_letter", "Lu"},
                           {"decimal_number", "Nd"},
                           {"digit", "Nd"},
                           {"alphabetic", "Alphabetic"},
                           {"alpha", "Alphabetic"},
                           {"white_space", "White_Space"},
                           {"space", "White_Space"},
                           {"lowercase", "Lowercase"},
                           {"lower", "Lowercase"},
                           {"uppercase", "Uppercase"},
                           {"upper", "Uppercase"},
                           {"ideographic", "Ideographic"},
                           {"emoji", "Emoji"},
                           {"extended_pictographic", "Extended_Pictographic"},
                           {"any", "Any"}};

std::string lowered(std::string_view name) {
  std::string result;
  for (const char c : name) result += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return result;
}

// What a property of Oniguruma is called in PCRE2. Scripts there are the property Script, not Script_Extensions.
std::string property(const std::string& name) {
  if (std::find(kCategories.begin(), kCategories.end(), name) != kCategories.end()) return name;
  const std::string low = lowered(name);
  for (const Name& known : kNames) {
    if (known.name == low) return std::string(known.category);
  }
  return "sc:" + name;
}

// With the numbers of Latin-1 that are no digits: superscripts and fractions.
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\xb2\\xb3\\xb9\\xbc-\\xbe";

class Translation {
 public:
  explicit Translation(const std::string& pattern) : rest_(pattern), whole_(pattern) {}

  std::string run() {
    while (!rest_.empty()) {
      if (rest_[0] == '\\') {
        escape(/*in_class=*/false);
      } else if (rest_[0] == '[') {
        character_class();
      } else {
        if (rest_[0] == '}' && rest_.substr(1, 1) == "+") refuse("a '+' behind an interval");
        copy(1);
      }
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw BadInput("the regular expression " + whole_ + " has " + what + ", which is not supported");
  }

  void copy(std::size_t count) {
    result_ += rest_.substr(0, count);
    rest_.remove_prefix(count);
  }

  void replace(std::size_t count, std::string_view by) {
    rest_.remove_prefix(count);
    result_ += by;
  }

  void escape(bool in_class) {
    if (rest_.size() < 2) refuse("a '\\' at its end");
    const char kind = rest_[1];
    switch (kind) {
      case 's':
        return replace(2, "\\p{White_Space}");
      case 'S':
        return replace(2, "\\P{White_Space}");
      case 'w':
        return replace(2, in_class ? std::string(kWord) : "[" + std::string(kWord) + "]");
      case 'W':
        if (in_class) refuse("\\W in a class");
        return replace(2, "[^" + std::string(kWord) + "]");
      case 'd':
        return replace(2, "\\p{Nd}");
      case 'D':
        return replace(2, "\\P{Nd}");
      case 'h':
        return replace(2, in_class ? "0-9a-fA-F" : "[0-9a-fA-F]");
      case 'p':
      case 'P':
        return unicode_property();
      case 'u':
        return hexadecimal();
      case 'x':
        return copy(2);
      default:
        break;
    }
    const bool letter = (kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z');
    if (letter && std::string_view("nrtfveabBAzZ").find(kind) == std::string_view::npos) {
      refuse(std::string("\\") + kind);
    }
    if (in_class && kind == 'b') return replace(2, "\\x08");
    if (kind == 'v') return replace(2, "\\x0b");
    copy(2);
  }

  void unicode_property() {
    const std::size_t end = rest_.find('}');
    const bool one_letter = rest_.size() > 2 && rest_[2] != '{';
    if (one_letter) return copy(3);
    if (end == std::string_view::npos || rest_.size() < 4) refuse("a property without '}'");
    std::string name(rest_.substr(3, end - 3));
    bool negated = rest_[1] == 'P';
    if (!name.empty() && name[0] == '^') {
      negated = !negated;
      name.erase(0, 1);
    }
    replace(end + 1, (negated ? "\\P{" : "\\p{") + property(name) + "}");
  }

  // \uHHHH
  void hexadecimal() {
    if (rest_.size() < 6) refuse("\\u without four digits");
    const std::string digits(rest_.substr(2, 4));
    if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) refuse("\\u without four digits");
    replace(6, "\\x{" + digits + "}");
  }

  void character_class() {
    copy(1);
    if (!rest_.empty() && rest_[0] == '^') copy(1);
    if (!rest_.empty() && rest_[0] == ']') copy(1);
    while (!rest_.empty() && rest_[0] != ']') {
      if (rest_[0] == '\\') {
        escape(/*in_class=*/true);
      } else if (rest_.substr(0, 2) == "&&") {
        refuse("an intersection of classes");
      } else if (rest_[0] == '[' && rest_.substr(1, 1) != ":") {
        refuse("a class within a class");
      } else if (rest_[0] == '[') {
        const std::size_t end = rest_.find(":]");
        if (end == std::string_view::npos) refuse("a class without ':]'");
        copy(end + 2);
      } else {
        copy(1);
      }
    }
    if (rest_.empty()) refuse("a class without ']'");
    copy(1);
  }

  std::string_view rest_;
  const std::string& whole_;
  std::string result_;
};

}  // namespace

std::string translate_regex(const std::string& pattern) { return Translation(pattern).run(); }

}  // namespace l2l::text
