#include "text/normal_forms.h"

#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/utext.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "l2l/errors.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

void check(UErrorCode status) {
  if (U_FAILURE(status)) throw Error(std::string("ICU: ") + u_errorName(status));
}

const icu::Normalizer2& today(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case NormalForm::nfc:
      found = icu::Normalizer2::getNFCInstance(status);
      break;
    case NormalForm::nfd:
      found = icu::Normalizer2::getNFDInstance(status);
      break;
    case NormalForm::nfkc:
      found = icu::Normalizer2::getNFKCInstance(status);
      break;
    case NormalForm::nfkd:
      found = icu::Normalizer2::getNFKDInstance(status);
      break;
  }
  check(status);
  return *found;
}

// The characters of Unicode 9; the tables of Hugging Face's library know no others.
const icu::UnicodeSet& known() {
  static const std::unique_ptr<const icu::UnicodeSet> characters = [] {
    UErrorCode status = U_ZERO_ERROR;
    auto set = std::make_unique<icu::UnicodeSet>(icu::UnicodeString("[:Age=9.0:]"), status);
    check(status);
    set->freeze();
    return set;
  }();
  return *characters;
}

const icu::Normalizer2& normalizer(NormalForm form) {
  static const icu::FilteredNormalizer2 kForms[] = {{today(NormalForm::nfc), known()},
                                                    {today(NormalForm::nfd), known()},
                                                    {today(NormalForm::nfkc), known()},
                                                    {today(NormalForm::nfkd), known()}};
  return kForms[static_cast<int>(form)];
}

std::int32_t icu_size(std::string_view piece) {
  if (piece.size() <= std::numeric_limits<std::int32_t>::max()) return static_cast<std::int32_t>(piece.size());
  throw BadInput("a text has " + std::to_string(piece.size()) +
                 " bytes that normalization has to take as one, such as combining marks in a row: split the text");
}

// The end of a prefix of at least so many bytes, or of all of `text`, at the beginning of a character.
std::size_t prefix_bytes(std::string_view text, std::size_t bytes) {
  while (bytes < text.size() && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) ++bytes;
  return std::min(bytes, text.size());
}

// The same, where what follows does not change the normal form of the prefix.
std::size_t prefix_bytes(std::string_view text, std::size_t bytes, const icu::Normalizer2& form) {
  std::size_t end = prefix_bytes(text, bytes);
  while (end < text.size()) {
    const CodePoint c = first_code_point(text.substr(end));
    if (form.hasBoundaryBefore(static_cast<UChar32>(c.value))) break;
    end += c.bytes;
  }
  return end;
}

}  // namespace

std::string normal_form(std::string_view text, NormalForm form, std::size_t piece_bytes) {
  const icu::Normalizer2& own = normalizer(form);
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, prefix_bytes(text, piece_bytes, own));
    UErrorCode status = U_ZERO_ERROR;
    own.normalizeUTF8(0, icu::StringPiece(piece.data(), icu_size(piece)), sink, nullptr, status);
    check(status);
    text.remove_prefix(piece.size());
  }
  return result;
}

void append_lowercase(std::string& result, char32_t c) {
  if (c == 0x130) {  // the only one that becomes two
    result += "i\xcc\x87";
    return;
  }
  append_code_point(result, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
}

void for_each_grapheme(std::string_view text, const std::function<void(std::string_view)>& found,
                       std::size_t piece_bytes) {
  UErrorCode status = U_ZERO_ERROR;
  thread_local const std::unique_ptr<icu::BreakIterator> characters(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  check(status);
  for (std::size_t bytes = piece_bytes; !text.empty();) {
    const std::string_view piece = text.substr(0, prefix_bytes(text, bytes));
    const icu::LocalUTextPointer view(utext_openUTF8(nullptr, piece.data(), icu_size(piece), &status));
    check(status);
    characters->setText(view.getAlias(), status);
    check(status);
    // The last cluster may go on behind the piece: it begins the next one.
    std::int32_t begin = characters->first();
    for (std::int32_t end = characters->next(); end != icu::BreakIterator::DONE; end = characters->next()) {
      if (static_cast<std::size_t>(end) == piece.size() && piece.size() < text.size()) break;
      found(piece.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
      begin = end;
    }
    text.remove_prefix(static_cast<std::size_t>(begin));
    bytes = begin > 0 ? piece_bytes : 2 * bytes;
  }
}

}  // namespace l2l::text
