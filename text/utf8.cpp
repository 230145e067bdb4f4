#include "text/utf8.h"

#include <algorithm>

namespace l2l::text {
namespace {

constexpr const char* kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Bytes of the sequence at the beginning of `text`, or how many of them could begin one, as a negative number.
int sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return -1;
  const int length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  for (int i = 1; i < length; ++i) {
    if (static_cast<std::size_t>(i) == text.size()) return -i;
    const unsigned char next = byte(static_cast<std::size_t>(i));
    unsigned char least = 0x80, most = 0xbf;
    if (i == 1) {  // no overlong forms, surrogates, or values beyond U+10FFFF
      if (lead == 0xe0) least = 0xa0;
      if (lead == 0xed) most = 0x9f;
      if (lead == 0xf0) least = 0x90;
      if (lead == 0xf4) most = 0x8f;
    }
    if (next < least || next > most) return -i;
  }
  return length;
}

}  // namespace

CodePoint last_code_point(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while ((static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
  return first_code_point(text.substr(begin));
}

void append_code_point(std::string& text, char32_t value) {
  const auto add = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (value < 0x80) return add(value);
  if (value < 0x800) {
    add(0xc0 | value >> 6);
  } else {
    if (value < 0x10000) {
      add(0xe0 | value >> 12);
    } else {
      add(0xf0 | value >> 18);
      add(0x80 | (value >> 12 & 0x3f));
    }
    add(0x80 | (value >> 6 & 0x3f));
  }
  add(0x80 | (value & 0x3f));
}

std::size_t valid_prefix(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const int length = sequence_length(text.substr(end));
    if (length < 0) return end;
    end += static_cast<std::size_t>(length);
  }
  return end;
}

std::size_t finished_prefix(std::string_view text) {
  constexpr std::size_t kMost = 3;  // bytes of a character that lacks one
  for (std::size_t bytes = 1; bytes <= std::min(kMost, text.size()); ++bytes) {
    const std::size_t begin = text.size() - bytes;
    const int length = sequence_length(text.substr(begin));
    if (length > 0) break;
    const auto first = static_cast<unsigned char>(text[begin]);
    if (first >= 0xc2 && first <= 0xf4 && static_cast<std::size_t>(-length) == bytes) return begin;
  }
  return text.size();
}

std::string replace_invalid(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t valid = valid_prefix(text);
    result += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    result += kReplacement;
    text.remove_prefix(static_cast<std::size_t>(-sequence_length(text)));
  }
  return result;
}

}  // namespace l2l::text
