#include "text/token_model.h"

#include "l2l/errors.h"
#include "text/byte_characters.h"

namespace l2l::text {
namespace {

class WordLevel final : public TokenModel {
 public:
  explicit WordLevel(const JsonReader& json)
      : TokenModel(Vocabulary(json)), unknown_(vocabulary().find(json.string("unk_token"))) {}

  void tokenize(const Piece& piece, std::vector<TokenId>& ids) const override {
    const std::string name = piece.bytes ? to_byte_characters(piece.text) : std::string(piece.text);
    const std::optional<TokenId> id = vocabulary().find(name);
    if (!id && !unknown_) refuse_unknown(piece);
    ids.push_back(id ? *id : *unknown_);
  }

 private:
  const std::optional<TokenId> unknown_;
};

std::string type_of(const JsonReader& json) {
  if (json.find("type") != nullptr) return json.type();
  if (json.find("merges") != nullptr) return "BPE";
  if (json.find("max_input_chars_per_word") != nullptr) return "WordPiece";
  return json.at("vocab").is_array() ? "Unigram" : "WordLevel";
}

}  // namespace

void TokenModel::refuse_unknown(const Piece& piece) {
  constexpr std::size_t kMostShown = 40;
  throw BadInput("the tokenizer has no token for " +
                 json_text(nlohmann::json(std::string(piece.text.substr(0, kMostShown)))) + " and no unknown token");
}

std::unique_ptr<TokenModel> make_word_level(const JsonReader& json) { return std::make_unique<WordLevel>(json); }

std::unique_ptr<TokenModel> make_token_model(const JsonReader& json) {
  const std::string type = type_of(json);
  if (type == "BPE") return make_bpe(json);
  if (type == "WordPiece") return make_word_piece(json);
  if (type == "Unigram") return make_unigram(json);
  if (type == "WordLevel") return make_word_level(json);
  json.refuse("the model \"" + type + "\" is not supported");
}

}  // namespace l2l::text
