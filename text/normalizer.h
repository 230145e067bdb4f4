// Normalizers of tokenizer.json: what a text is changed to before it is cut.
#pragma once

#include <memory>
#include <string>

#include "text/json_reader.h"

namespace l2l::text {

// Immutable; apply() is thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // `text`: valid UTF-8, here and in the result.
  virtual std::string apply(std::string text) const = 0;
};

// Throws BadInput naming file and field for what is not built.
std::unique_ptr<Normalizer> make_normalizer(const JsonReader& json);
// BERT's, as make_normalizer() makes it from the fields of the same names.
struct BertNormalization {
  bool clean_text = true, chinese = true, strip_accents = true, lowercase = true;
};
std::unique_ptr<Normalizer> make_bert_normalizer(const BertNormalization& settings);
// SentencePiece's, from its compiled character map in base64 (precompiled_charsmap).
std::unique_ptr<Normalizer> make_precompiled_normalizer(const JsonReader& json);

}  // namespace l2l::text
