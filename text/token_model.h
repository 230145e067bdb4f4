// The part of a tokenizer that turns a piece of text into tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace l2l::text {

// Immutable; tokenize() is thread-safe.
class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of `piece`, which is not empty. The result depends on piece.text and piece.bytes alone. Throws
  // BadInput where nothing stands for a part of it.
  virtual void tokenize(const Piece& piece, std::vector<TokenId>& ids) const = 0;

 protected:
  [[noreturn]] static void refuse_unknown(const Piece& piece);

 private:
  const Vocabulary vocabulary_;
};

// Two tokens that may become one; the first ones in the list go first.
struct Merge {
  TokenId left = 0, right = 0, merged = 0;
};

// Byte-pair encoding (Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", 2016).
struct BpeSettings {
  std::vector<Merge> merges;
  std::optional<TokenId> unknown;  // nothing: unknown characters are left out
  bool fuse_unknown = false;       // several in a row are one token
  bool byte_fallback = false;      // unknown characters become the tokens of their bytes, <0x00> to <0xFF>
  bool ignore_merges = false;      // a piece that is a token is that token
  std::string continuing_prefix;   // of characters that do not begin a piece
  std::string end_suffix;          // of the last one
};
std::unique_ptr<TokenModel> make_bpe(Vocabulary vocabulary, BpeSettings settings);
std::unique_ptr<TokenModel> make_bpe(const JsonReader& json);
// Lines "LEFT RIGHT", as in merges.txt and in the older form of tokenizer.json. `place` begins messages.
Merge read_merge(const Vocabulary& vocabulary, std::string_view left, std::string_view right,
                 const std::string& continuing_prefix, const std::string& place);

// The longest token at the beginning, then the longest one at the beginning of the rest, which has `prefix` before it
// (Wu et al., "Google's Neural Machine Translation System", 2016; BERT's).
struct WordPieceSettings {
  std::string unknown = "[UNK]", prefix = "##";
  std::int64_t most_characters = 100;  // longer pieces are unknown
};
std::unique_ptr<TokenModel> make_word_piece(Vocabulary vocabulary, const WordPieceSettings& settings);
std::unique_ptr<TokenModel> make_word_piece(const JsonReader& json);

// The most probable sequence of tokens (Kudo, "Subword Regularization", 2018).
std::unique_ptr<TokenModel> make_unigram(const JsonReader& json);

// Every piece is a token, or the unknown one.
std::unique_ptr<TokenModel> make_word_level(const JsonReader& json);

// Any of these, by its field "type" or, in older files, by the fields that it has. Throws BadInput.
std::unique_ptr<TokenModel> make_token_model(const JsonReader& json);

}  // namespace l2l::text
