#include "text/byte_characters.h"
#include "text/token_model.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

class WordPiece final : public TokenModel {
 public:
  WordPiece(Vocabulary vocabulary, const WordPieceSettings& settings)
      : TokenModel(std::move(vocabulary)), settings_(settings), unknown_(this->vocabulary().find(settings.unknown)) {}

  void tokenize(const Piece& piece, std::vector<TokenId>& ids) const override {
    const std::string word = piece.bytes ? to_byte_characters(piece.text) : std::string(piece.text);
    const std::size_t before = ids.size();
    if (characters(word) <= settings_.most_characters && append(word, ids)) return;
    if (!unknown_) refuse_unknown(piece);
    ids.resize(before);
    ids.push_back(*unknown_);
  }

 private:
  static std::int64_t characters(std::string_view text) {
    std::int64_t count = 0;
    for (; !text.empty(); ++count) text.remove_prefix(first_code_point(text).bytes);
    return count;
  }

  // False where no token fits.
  bool append(const std::string& word, std::vector<TokenId>& ids) const {
    std::string rest;
    for (std::size_t begin = 0; begin < word.size();) {
      rest = begin > 0 ? settings_.prefix : std::string();
      const std::size_t prefix = rest.size();
      rest.append(word, begin);
      std::optional<TokenId> id = vocabulary().find(rest);
      while (!id && rest.size() > prefix) {
        rest.resize(rest.size() - last_code_point(rest).bytes);
        if (rest.size() > prefix) id = vocabulary().find(rest);
      }
      if (!id) return false;
      ids.push_back(*id);
      begin += rest.size() - prefix;
    }
    return true;
  }

  const WordPieceSettings settings_;
  const std::optional<TokenId> unknown_;
};

}  // namespace

std::unique_ptr<TokenModel> make_word_piece(Vocabulary vocabulary, const WordPieceSettings& settings) {
  return std::make_unique<WordPiece>(std::move(vocabulary), settings);
}

std::unique_ptr<TokenModel> make_word_piece(const JsonReader& json) {
  constexpr std::int64_t kMostCharacters = 1'000'000;
  return make_word_piece(Vocabulary(json), {json.string("unk_token"), json.string("continuing_subword_prefix"),
                                            json.integer("max_input_chars_per_word", kMostCharacters)});
}

}  // namespace l2l::text
