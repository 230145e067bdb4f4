#include "text/characters.h"

#include <unicode/uchar.h>

#include <cstdint>

namespace l2l::text {
namespace {

UChar32 icu(char32_t c) { return static_cast<UChar32>(c); }

bool in_category(char32_t c, std::uint32_t mask) { return (U_GET_GC_MASK(icu(c)) & mask) != 0; }

}  // namespace

bool is_whitespace(char32_t c) { return u_hasBinaryProperty(icu(c), UCHAR_WHITE_SPACE); }
bool is_numeric(char32_t c) { return in_category(c, U_GC_ND_MASK | U_GC_NL_MASK | U_GC_NO_MASK); }
bool is_punctuation(char32_t c) { return in_category(c, U_GC_P_MASK); }
bool is_mark(char32_t c) { return in_category(c, U_GC_M_MASK); }
bool is_nonspacing_mark(char32_t c) { return in_category(c, U_GC_MN_MASK); }
bool is_other(char32_t c) { return in_category(c, U_GC_C_MASK); }
bool is_word(char32_t c) {
  return u_hasBinaryProperty(icu(c), UCHAR_ALPHABETIC) || in_category(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) ||
         u_hasBinaryProperty(icu(c), UCHAR_JOIN_CONTROL);
}

bool is_bert_punctuation(char32_t c) {
  const bool symbol = (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  return symbol || is_punctuation(c);
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
