#include "text/normalizer.h"

#include <functional>
#include <vector>

#include "text/byte_characters.h"
#include "text/characters.h"
#include "text/normal_forms.h"
#include "text/pattern.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

// From a function of the whole text.
class NormalizerFunction final : public Normalizer {
 public:
  explicit NormalizerFunction(std::function<std::string(std::string)> function) : function_(std::move(function)) {}
  std::string apply(std::string text) const override { return function_(std::move(text)); }

 private:
  const std::function<std::string(std::string)> function_;
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(const JsonReader& json) {
    for (const JsonReader& part : json.objects("normalizers")) parts_.push_back(make_normalizer(part));
  }
  std::string apply(std::string text) const override {
    for (const auto& part : parts_) text = part->apply(std::move(text));
    return text;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

// `map(c, result)` appends what stands for c.
template <typename Map>
std::string map_characters(std::string_view text, Map map) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    map(c.value, result);
    text.remove_prefix(c.bytes);
  }
  return result;
}

template <typename Keep>
std::string filter(std::string_view text, Keep keep) {
  return map_characters(text, [&](char32_t c, std::string& result) {
    if (keep(c)) append_code_point(result, c);
  });
}

std::string lowercase(std::string_view text) {
  return map_characters(text, [](char32_t c, std::string& result) { append_lowercase(result, c); });
}

// White space at the ends.
std::string strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty() && is_whitespace(first_code_point(text).value)) {
    text.remove_prefix(first_code_point(text).bytes);
  }
  while (right && !text.empty() && is_whitespace(last_code_point(text).value)) {
    text.remove_suffix(last_code_point(text).bytes);
  }
  return std::string(text);
}

// The normalization of neural machine translation in SentencePiece: controls go, other white space becomes ' '.
void append_nmt(char32_t c, std::string& result) {
  if ((c >= 1 && c <= 8) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) return;
  const bool space = c == 9 || c == 0x0a || c == 0x0c || c == 0x0d || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                     c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
  append_code_point(result, space ? U' ' : c);
}

std::string clean(std::string_view text) {
  return map_characters(text, [](char32_t c, std::string& result) {
    const bool space = c == '\t' || c == '\n' || c == '\r';
    if (c == 0 || c == 0xfffd || (is_other(c) && !space)) return;
    append_code_point(result, space || is_whitespace(c) ? U' ' : c);
  });
}

std::string part_chinese(std::string_view text) {
  return map_characters(text, [](char32_t c, std::string& result) {
    if (!is_chinese(c)) return append_code_point(result, c);
    result += ' ';
    append_code_point(result, c);
    result += ' ';
  });
}

std::string normalize_bert(std::string text, const BertNormalization& settings) {
  if (settings.clean_text) text = clean(text);
  if (settings.chinese) text = part_chinese(text);
  if (settings.strip_accents) {
    text = filter(normal_form(text, NormalForm::nfd), [](char32_t c) { return !is_nonspacing_mark(c); });
  }
  return settings.lowercase ? lowercase(text) : text;
}

std::function<std::string(std::string)> normalizer_function(const JsonReader& json) {
  const std::string type = json.type();
  const auto form = [](NormalForm form) { return [form](std::string text) { return normal_form(text, form); }; };
  if (type == "NFC") return form(NormalForm::nfc);
  if (type == "NFD") return form(NormalForm::nfd);
  if (type == "NFKC") return form(NormalForm::nfkc);
  if (type == "NFKD") return form(NormalForm::nfkd);
  if (type == "Lowercase") return [](std::string text) { return lowercase(text); };
  if (type == "StripAccents") {
    return [](std::string text) { return filter(text, [](char32_t c) { return !is_mark(c); }); };
  }
  if (type == "Strip") {
    return [left = json.boolean("strip_left"), right = json.boolean("strip_right")](std::string text) {
      return strip(text, left, right);
    };
  }
  if (type == "Nmt") return [](std::string text) { return map_characters(text, append_nmt); };
  if (type == "Prepend") {
    return [prefix = json.string("prepend")](std::string text) { return text.empty() ? text : prefix + text; };
  }
  if (type == "ByteLevel") return [](std::string text) { return to_byte_characters(text); };
  if (type == "Replace") {
    return [pattern = std::make_shared<const Pattern>(json), by = json.string("content")](std::string text) {
      return pattern->replace(text, by);
    };
  }
  if (type == "BertNormalizer") {
    BertNormalization settings;
    settings.clean_text = json.boolean("clean_text");
    settings.chinese = json.boolean("handle_chinese_chars");
    settings.lowercase = json.boolean("lowercase");
    settings.strip_accents = json.boolean_or("strip_accents", settings.lowercase);
    return [settings](std::string text) { return normalize_bert(std::move(text), settings); };
  }
  json.refuse("the normalizer \"" + type + "\" is not supported");
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const JsonReader& json) {
  if (json.type() == "Sequence") return std::make_unique<NormalizerSequence>(json);
  if (json.type() == "Precompiled") return make_precompiled_normalizer(json);
  return std::make_unique<NormalizerFunction>(normalizer_function(json));
}

std::unique_ptr<Normalizer> make_bert_normalizer(const BertNormalization& settings) {
  return std::make_unique<NormalizerFunction>(
      [settings](std::string text) { return normalize_bert(std::move(text), settings); });
}

}  // namespace l2l::text
