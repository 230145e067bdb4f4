#include "text/characters.h"

#include <unicode/uchar.h>

#include <cstdint>

namespace l2l::text {
namespace {

UChar32 icu(char32_t c) { return static_cast<UChar32>(c); }

bool in_category(char32_t c, std::uint32_t mask) { return (U_GET_GC_MASK(icu(c)) & mask) != 0; }

// Whether this version of Unicode has the character.
bool was_there(char32_t c, std::uint8_t version) {
  UVersionInfo age;
  u_charAge(icu(c), age);
  return age[0] < version || (age[0] == version && age[1] == 0);
}

}  // namespace

bool is_whitespace(char32_t c) { return u_hasBinaryProperty(icu(c), UCHAR_WHITE_SPACE); }
bool is_numeric(char32_t c) { return in_category(c, U_GC_ND_MASK | U_GC_NL_MASK | U_GC_NO_MASK); }
bool is_word(char32_t c) {
  return u_hasBinaryProperty(icu(c), UCHAR_ALPHABETIC) || in_category(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_hasBinaryProperty(icu(c), UCHAR_JOIN_CONTROL);
}

// Where an older version had another category than today's, that one counts.

bool is_mark(char32_t c) {
  if (c == 0x1cf2 || c == 0x1cf3) return true;
  return in_category(c, U_GC_M_MASK) && c != 0x111c9 && was_there(c, 9);
}

bool is_nonspacing_mark(char32_t c) {
  if (c == 0x1734) return true;
  const bool was_another = c == 0x1885 || c == 0x1886 || c == 0xa9bd || c == 0x111c9;
  return in_category(c, U_GC_MN_MASK) && !was_another && was_there(c, 8);
}

bool is_other(char32_t c) { return in_category(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK) && was_there(c, 8); }

bool is_bert_punctuation(char32_t c) {
  if (c < 128) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  if (c == 0x166d || c == 0x111c9) return true;
  return in_category(c, U_GC_P_MASK) && was_there(c, 8);
}

bool is_chinese(char32_t c) {
  constexpr struct {
    char32_t first, last;
  } kRanges[] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
                 {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  for (const auto& range : kRanges) {
    if (c >= range.first && c <= range.last) return true;
  }
  return false;
}

}  // namespace l2l::text
