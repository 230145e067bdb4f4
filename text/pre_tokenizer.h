// Pre-tokenizers of tokenizer.json: they cut a normalized text into the pieces that the model sees one by one.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_reader.h"

namespace l2l::text {

struct Piece {
  std::string_view text;
  bool first = false;  // begins where the whole text does
  bool bytes = false;  // stands for to_byte_characters(text)
};

// Pieces of a text, in its order; those that were changed lie in `changed`. Reused from text to text.
struct Pieces {
  std::vector<Piece> list;
  std::deque<std::string> changed;

  std::string_view keep(std::string text) { return changed.emplace_back(std::move(text)); }
  // What the piece stands for.
  std::string_view text_of(const Piece& piece);
};

// Immutable; split() is thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Replaces each piece by its parts.
  virtual void split(Pieces& pieces) const = 0;
};

// Throws BadInput naming file and field for what is not built.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const JsonReader& json);
// Those of files that have none of their own.
std::unique_ptr<PreTokenizer> make_bert_pre_tokenizer();
// Cuts by `regex`, every match and all between them, then stands for bytes.
std::unique_ptr<PreTokenizer> make_byte_level_pre_tokenizer(const std::string& regex, bool add_prefix_space);

extern const char* const kGpt2Regex;

}  // namespace l2l::text
