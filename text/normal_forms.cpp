#include "text/normal_forms.h"

#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/utext.h>

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

}  // namespace

std::string normal_form(std::string_view text, NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  normalizer(form).normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())), sink,
                                 nullptr, status);
  check(status);
  return result;
}

void append_lowercase(std::string& result, char32_t c) {
  if (c == 0x130) {  // the only one that becomes two
    result += "i\xcc\x87";
    return;
  }
  append_code_point(result, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
}

std::vector<std::size_t> grapheme_lengths(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  thread_local const std::unique_ptr<icu::BreakIterator> characters(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  check(status);
  UText view = UTEXT_INITIALIZER;
  utext_openUTF8(&view, text.data(), static_cast<std::int64_t>(text.size()), &status);
  check(status);
  characters->setText(&view, status);
  std::vector<std::size_t> lengths;
  std::int32_t begin = characters->first();
  for (std::int32_t end = characters->next(); end != icu::BreakIterator::DONE; end = characters->next()) {
    lengths.push_back(static_cast<std::size_t>(end - begin));
    begin = end;
  }
  utext_close(&view);
  check(status);
  return lengths;
}

}  // namespace l2l::text
