// UTF-8: one code point at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace l2l::text {

struct CodePoint {
  char32_t value = 0;
  std::uint32_t bytes = 0;  // 1 to 4
};

// The code point at the beginning of `text`, which is not empty and valid UTF-8.
inline CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const auto rest = [&](std::size_t i) { return static_cast<char32_t>(byte(i) & 0x3f); };
  if (lead < 0xe0) return {static_cast<char32_t>(lead & 0x1f) << 6 | rest(1), 2};
  if (lead < 0xf0) return {static_cast<char32_t>(lead & 0x0f) << 12 | rest(1) << 6 | rest(2), 3};
  return {static_cast<char32_t>(lead & 0x07) << 18 | rest(1) << 12 | rest(2) << 6 | rest(3), 4};
}

// The last one.
CodePoint last_code_point(std::string_view text);

void append_code_point(std::string& text, char32_t value);

// The length of the prefix that is valid UTF-8.
std::size_t valid_prefix(std::string_view text);
// The length of `text` without a character at its end that further bytes may complete.
std::size_t finished_prefix(std::string_view text);
// `text` with U+FFFD for every maximal part that is not UTF-8 (The Unicode Standard, 3.9, "U+FFFD Substitution of
// Maximal Subparts"), which is what Python's errors="replace" and Rust's from_utf8_lossy give.
std::string replace_invalid(std::string_view text);

}  // namespace l2l::text
