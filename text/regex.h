// Regular expressions of tokenizer files. These are written for Oniguruma with Ruby's syntax; they are matched here by
// PCRE2, after what the two mean differently is rewritten.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace l2l::text {

struct Match {
  std::size_t begin = 0, end = 0;  // bytes
};

// Immutable; find() is thread-safe. Unicode classes everywhere; compiled to machine code where PCRE2 can.
class Regex {
 public:
  // Throws BadInput, naming what is not supported.
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;

  // The first match in `text`, valid UTF-8, at or behind `from`. Throws BadInput when a search needs more steps than
  // any expression of a tokenizer should.
  std::optional<Match> find(std::string_view text, std::size_t from) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
  std::string pattern_;
};

// The expression in PCRE2's syntax. Exposed for tests. Throws BadInput.
std::string translate_regex(const std::string& pattern);

}  // namespace l2l::text
