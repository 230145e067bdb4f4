#include <sentencepiece_processor.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>

#include "l2l/errors.h"
#include "text/added_tokens.h"
#include "text/tokenizer_config.h"
#include "text/tokenizer_files.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

using sentencepiece::SentencePieceProcessor;

// Of a call that returns a status; parts of the library throw exceptions of their own.
template <typename Call>
void check(const std::string& what, const Call& call) {
  std::string failure;
  try {
    const sentencepiece::util::Status status = call();
    if (status.ok()) return;
    failure = status.ToString();
  } catch (const std::exception& error) {
    failure = error.what();
  }
  throw BadInput(what + ": " + failure);
}

// Pieces that SentencePiece itself never finds in a text; its user-defined symbols it does find.
std::vector<AddedToken> control_tokens(const SentencePieceProcessor& processor) {
  std::vector<AddedToken> tokens;
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    if (processor.IsControl(id)) tokens.push_back({processor.IdToPiece(id), id, /*special=*/true});
  }
  return tokens;
}

class SentencePieceEncoder final : public Encoder {
 public:
  SentencePieceEncoder(const SentencePieceProcessor& processor, const TokenFinder& added)
      : processor_(processor), added_(added) {}
  void encode(std::string_view text, bool, std::vector<std::int32_t>& ids) override {
    std::string valid;
    if (valid_prefix(text) != text.size()) text = valid = replace_invalid(text);
    added_.find(text, parts_);
    for (const TokenOrText& part : parts_) {
      part.id >= 0 ? ids.push_back(part.id) : encode_text(text.substr(part.begin, part.end - part.begin), ids);
    }
  }

 private:
  void encode_text(std::string_view text, std::vector<std::int32_t>& ids) {
    check("SentencePiece", [&] { return processor_.Encode({text.data(), text.size()}, &found_); });
    ids.insert(ids.end(), found_.begin(), found_.end());
  }

  const SentencePieceProcessor& processor_;
  const TokenFinder& added_;
  std::vector<TokenOrText> parts_;
  std::vector<int> found_;
};

// By SentencePiece's own library, which is given the text between special tokens: each part by itself, as transformers'
// tokenizers in Python do (`legacy`). Nothing is added around a text: such files do not say what would be.
class SentencePiece final : public Tokenizer {
 public:
  explicit SentencePiece(const std::filesystem::path& file) {
    const std::string model = read_tokenizer_file(file);
    check(file.string() + ": not a SentencePiece model", [&] {
      return processor_.LoadFromSerializedProto({model.data(), model.size()});
    });
    std::vector<AddedToken> tokens = control_tokens(processor_);
    // Some are pieces of the model, and others were added to it.
    const TokenizerConfig config(file.parent_path());
    for (AddedToken& token : config.added_tokens([&](const std::string& text) { return find(text); }, size())) {
      std::erase_if(tokens, [&](const AddedToken& other) { return other.id == token.id; });
      tokens.push_back(std::move(token));
    }
    for (const AddedToken& token : tokens) added_[token.id] = token;
    finder_ = TokenFinder(std::move(tokens));
  }
  std::int64_t vocabulary() const override {
    return added_.empty() ? size() : std::max<std::int64_t>(size(), added_.rbegin()->first + 1);
  }
  std::unique_ptr<Encoder> make_encoder() const override {
    return std::make_unique<SentencePieceEncoder>(processor_, finder_);
  }
  std::string decode(std::span<const std::int32_t> ids, bool special) const override {
    std::string text;
    std::vector<int> pieces;
    for (const std::int32_t id : ids) {
      if (const auto token = added_.find(id); token != added_.end()) {
        if (token->second.special && !special) continue;
        append_text(pieces, text);
        text += token->second.content;
        pieces.clear();
      } else if (id >= 0 && id < size()) {
        pieces.push_back(id);
      } else {
        throw BadInput("token id " + std::to_string(id) + " stands for nothing in this tokenizer");
      }
    }
    append_text(pieces, text);
    return text;
  }

 private:
  std::int64_t size() const { return processor_.GetPieceSize(); }  // of the model alone
  std::optional<TokenId> find(const std::string& text) const {
    const TokenId id = processor_.PieceToId(text);  // of what is no piece that of the unknown one
    return processor_.IdToPiece(id) == text ? std::optional(id) : std::nullopt;
  }
  void append_text(const std::vector<int>& pieces, std::string& text) const {
    std::string part;
    check("SentencePiece", [&] { return processor_.Decode(pieces, &part); });
    text += part;
  }

  SentencePieceProcessor processor_;
  std::map<TokenId, AddedToken> added_;
  TokenFinder finder_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& file) {
  return std::make_unique<SentencePiece>(file);
}

}  // namespace l2l::text
