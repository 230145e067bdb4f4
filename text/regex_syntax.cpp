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

constexpr std::string_view kOptionLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ^-";

// Of \w: within brackets, and alone, where the numbers of Latin-1 that are no digits (superscripts and fractions) are
// of words, too.
constexpr std::string_view kWordInClass = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
std::string word(std::string_view bracket = "[") {
  return std::string(bracket) + std::string(kWordInClass) + "\\xb2\\xb3\\xb9\\xbc-\\xbe]";
}

// [:NAME:], as the tables of Oniguruma have it.
constexpr Name kPosixClasses[] = {{"alnum", "\\p{Alphabetic}\\p{Nd}"},
                                  {"alpha", "\\p{Alphabetic}"},
                                  {"ascii", "\\x00-\\x7f"},
                                  {"blank", "\\p{Zs}\\t"},
                                  {"cntrl", "\\p{Cc}"},
                                  {"digit", "\\p{Nd}"},
                                  {"graph", "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}"},
                                  {"lower", "\\p{Lowercase}"},
                                  {"print", "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}\\p{Zs}"},
                                  {"punct", "\\p{P}\\p{S}"},
                                  {"space", "\\p{White_Space}"},
                                  {"upper", "\\p{Uppercase}"},
                                  {"word", kWordInClass},
                                  {"xdigit", "0-9a-fA-F"}};

class Translation {
 public:
  explicit Translation(const std::string& pattern) : rest_(pattern), whole_(pattern) {}

  std::string run() {
    while (!rest_.empty()) {
      if (rest_[0] == '\\') {
        escape(/*in_class=*/false);
      } else if (rest_[0] == '[') {
        character_class();
      } else if (rest_[0] == '{') {
        brace();
      } else if (rest_[0] == '(') {
        group();
      } else {
        copy(1);
        if (result_.back() == '|') branch_ = result_.size();
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
        return replace(2, in_class ? std::string(kWordInClass) : word());
      case 'W':
        if (in_class) refuse("\\W in a class");
        return replace(2, word("[^"));
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
        return code_point();
      default:
        break;
    }
    const bool letter = (kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z');
    if (letter && std::string_view("nrtfveabBAzZ").find(kind) == std::string_view::npos) {
      refuse(std::string("\\") + kind);
    }
    if (in_class && kind == 'b') return replace(2, "\\x08");
    if (in_class && kind == 'B') refuse("\\B in a class");
    if (kind == 'b' || kind == 'B') return word_border(/*is_one=*/kind == 'b');
    if (kind == 'v') return replace(2, "\\x0b");
    copy(2);
  }

  // \b and \B, by what \w is.
  void word_border(bool is_one) {
    const std::string behind = "(?<=" + word() + ")", not_behind = "(?<!" + word() + ")", ahead = "(?=" + word() + ")",
                      not_ahead = "(?!" + word() + ")";
    replace(2, is_one ? "(?:" + behind + not_ahead + "|" + not_behind + ahead + ")"
                      : "(?:" + behind + ahead + "|" + not_behind + not_ahead + ")");
  }

  // [:NAME:] and [:^NAME:]
  void posix_class() {
    const std::size_t end = rest_.find(":]");
    if (end == std::string_view::npos) refuse("a class without ':]'");
    const bool negated = rest_[2] == '^';
    const std::string_view name = rest_.substr(negated ? 3 : 2, end - (negated ? 3 : 2));
    const auto known = std::ranges::find(kPosixClasses, name, &Name::name);
    std::string by(known == std::end(kPosixClasses) ? "" : known->category);
    const bool is_property = by.starts_with("\\p{") && by.find('\\', 1) == by.npos;
    if (by.empty() || (negated && !is_property)) refuse("the class " + std::string(rest_.substr(0, end + 2)));
    if (negated) by[1] = 'P';
    replace(end + 2, by);
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

  // \xH, \xHH and \x{H...}: a byte, which is a character up to \x7f, and a code point.
  void code_point() {
    constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
    if (rest_.substr(2, 1) != "{") {
      const bool has_two_digits = rest_.find_first_not_of(kDigits, 2) != 2 && rest_.find_first_of(kDigits, 3) == 3;
      if (has_two_digits && rest_[2] >= '8') refuse("a byte above \\x7f");
      return copy(2);
    }
    const std::size_t end = rest_.find_first_not_of(kDigits, 3);
    if (end == 3 || end == std::string_view::npos || rest_[end] != '}') refuse("\\x{ without digits and '}'");
    copy(end + 1);
  }

  // \uHHHH
  void hexadecimal() {
    if (rest_.size() < 6) refuse("\\u without four digits");
    const std::string digits(rest_.substr(2, 4));
    if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) refuse("\\u without four digits");
    replace(6, "\\x{" + digits + "}");
  }

  // {n}, {n,}, {n,m} or {,n}, which is {0,n}; else '{' stands for itself. A '+' behind it, and a '?' behind {n}, would
  // make it possessive or lazy in PCRE2; in Oniguruma, they repeat it.
  void brace() {
    const std::size_t end = rest_.find('}');
    const std::string range(rest_.substr(1, end == std::string_view::npos ? 0 : end - 1));
    const std::size_t comma = range.find(',');
    const bool is_interval = range.find_first_of("0123456789") != std::string::npos && comma == range.rfind(',') &&
                             range.find_first_not_of("0123456789,") == std::string::npos;
    if (!is_interval) return replace(1, "\\{");
    const std::string behind(rest_.substr(end + 1, 1));
    const bool repeats = behind == "+" || (behind == "?" && comma == std::string::npos);
    if (repeats) refuse("a '" + behind + "' behind an interval (write (?:X{" + range + "})" + behind + ")");
    replace(end + 1, (comma == 0 ? "{0" : "{") + range + "}");
  }

  // Options: Oniguruma's m, with which '.' matches line ends, is s in PCRE2.
  void group() {
    const std::size_t end = rest_.starts_with("(?") ? rest_.find_first_not_of(kOptionLetters, 2) : 0;
    if (end == 0 || end == std::string_view::npos || (rest_[end] != ':' && rest_[end] != ')')) {
      copy(1);
    } else {
      // In the middle of a branch, Oniguruma takes all that is behind them for one group: a(?i)b|c is a(?i:b|c).
      const bool in_branch = rest_[end] == ')' && result_.size() != branch_;
      if (in_branch) refuse("options within a branch (write (?" + std::string(rest_.substr(2, end - 2)) + ":X))");
      std::string own(rest_.substr(0, end + 1));
      for (const char c : own.substr(2, end - 2)) {
        if (std::string_view("imx-").find(c) == std::string_view::npos) refuse(std::string("the option ") + c);
      }
      std::replace(own.begin(), own.end(), 'm', 's');
      replace(end + 1, own);
    }
    branch_ = result_.size();
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
        posix_class();
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
  std::size_t branch_ = 0;  // where in it the last branch begins, as far as that is known
};

}  // namespace

std::string translate_regex(const std::string& pattern) { return Translation(pattern).run(); }

}  // namespace l2l::text
