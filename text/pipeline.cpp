#include "text/pipeline.h"

#include <algorithm>
#include <set>

#include "l2l/errors.h"
#include "text/utf8.h"
#include "text/word_cache.h"

namespace l2l::text {
namespace {

class Pipeline final : public Tokenizer {
 public:
  explicit Pipeline(PipelineParts parts) : parts_(std::move(parts)) {
    size_ = parts_.model->vocabulary().size();
    std::vector<AddedToken> raw, normalized;
    for (AddedToken token : parts_.added) {
      size_ = std::max<std::int64_t>(size_, token.id + 1);
      if (token.special) special_.insert(token.content);
      if (token.normalized && parts_.normalizer) token.content = parts_.normalizer->apply(token.content);
      added_[token.id] = token.content;
      (token.normalized ? normalized : raw).push_back(token);
    }
    raw_ = TokenFinder(std::move(raw));
    normalized_ = TokenFinder(std::move(normalized));
  }

  std::int64_t vocabulary() const override { return size_; }
  std::unique_ptr<Encoder> make_encoder() const override;
  std::string decode(std::span<const TokenId> ids, bool special) const override;

  const PipelineParts& parts() const { return parts_; }
  const TokenFinder& raw() const { return raw_; }
  const TokenFinder& normalized() const { return normalized_; }

 private:
  PipelineParts parts_;
  std::int64_t size_ = 0;
  TokenFinder raw_, normalized_;  // what is looked for before, and after, normalization
  std::unordered_map<TokenId, std::string> added_;
  std::set<std::string, std::less<>> special_;  // decoding leaves out tokens of these names, whatever their ids
};

class PipelineEncoder final : public Encoder {
 public:
  explicit PipelineEncoder(const Pipeline& pipeline) : pipeline_(pipeline) {}

  void encode(std::string_view text, bool special, std::vector<TokenId>& ids) override {
    std::string valid;
    if (valid_prefix(text) != text.size()) text = valid = replace_invalid(text);
    const SurroundingTokens& surrounding = pipeline_.parts().surrounding;
    if (special) ids.insert(ids.end(), surrounding.before.begin(), surrounding.before.end());
    pipeline_.raw().find(text, found_);
    for (const TokenOrText& part : found_) {
      part.id >= 0 ? ids.push_back(part.id)
                   : normalize(text.substr(part.begin, part.end - part.begin), part.begin == 0, ids);
    }
    if (special) ids.insert(ids.end(), surrounding.behind.begin(), surrounding.behind.end());
  }

  void encode_pair(std::string_view first, std::string_view second, std::vector<TokenId>& ids,
                   std::vector<std::int32_t>& types) override {
    const std::vector<SurroundingTokens::Part>& pair = pipeline_.parts().surrounding.pair;
    if (pair.empty()) throw BadInput("post_processor: this tokenizer has no template for a pair of texts");
    for (const SurroundingTokens::Part& part : pair) {
      if (part.text < 0) {
        ids.push_back(part.token);
      } else {
        encode(part.text == 0 ? first : second, /*special=*/false, ids);
      }
      types.resize(ids.size(), part.type);
    }
  }

 private:
  // In Hugging Face's library nothing begins where a text does whose first character is removed.
  static bool removes_first(const Normalizer& normalizer, std::string_view text) {
    if (text.empty()) return false;
    const std::size_t bytes = first_code_point(text).bytes;
    return normalizer.apply(std::string(text.substr(0, bytes))).empty() &&
           normalizer.apply(std::string(text)) == normalizer.apply(std::string(text.substr(bytes)));
  }

  // `first`: it begins where the whole text does.
  void normalize(std::string_view text, bool first, std::vector<TokenId>& ids) {
    std::string changed;
    if (const Normalizer* const normalizer = pipeline_.parts().normalizer.get()) {
      first = first && !removes_first(*normalizer, text);
      text = changed = normalizer->apply(std::string(text));
    }
    if (pipeline_.normalized().empty()) return cut(text, first, ids);
    pipeline_.normalized().find(text, found_normalized_);
    for (const TokenOrText& part : found_normalized_) {
      part.id >= 0 ? ids.push_back(part.id)
                   : cut(text.substr(part.begin, part.end - part.begin), first && part.begin == 0, ids);
    }
  }

  void cut(std::string_view text, bool first, std::vector<TokenId>& ids) {
    if (text.empty()) return;
    pieces_.list.assign(1, {text, first});
    pieces_.changed.clear();
    if (const PreTokenizer* const cutter = pipeline_.parts().pre_tokenizer.get()) cutter->split(pieces_);
    for (const Piece& piece : pieces_.list) {
      if (cache_.find(piece.text, ids)) continue;
      const std::size_t begin = ids.size();
      pipeline_.parts().model->tokenize(piece, ids);
      cache_.keep(piece.text, std::span(ids).subspan(begin));
    }
  }

  const Pipeline& pipeline_;
  std::vector<TokenOrText> found_, found_normalized_;
  Pieces pieces_;
  WordCache cache_;
};

std::unique_ptr<Encoder> Pipeline::make_encoder() const { return std::make_unique<PipelineEncoder>(*this); }

std::string Pipeline::decode(std::span<const TokenId> ids, bool special) const {
  std::vector<std::string> tokens;
  for (const TokenId id : ids) {
    const auto added = added_.find(id);
    const std::string* const token = added != added_.end() ? &added->second : parts_.model->vocabulary().token(id);
    if (token == nullptr) throw BadInput("token id " + std::to_string(id) + " stands for nothing in this tokenizer");
    if (special || special_.count(*token) == 0) tokens.push_back(*token);
  }
  if (parts_.decoder) tokens = parts_.decoder->decode(std::move(tokens));
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !parts_.decoder) text += ' ';
    text += tokens[i];
  }
  return text;
}

std::vector<AddedToken> read_added_tokens(const JsonReader& json, const Vocabulary& vocabulary) {
  if (json.find("added_tokens") == nullptr) return {};
  AddedTokens tokens(vocabulary, static_cast<std::int64_t>(json.object("model").at("vocab").size()));
  for (const JsonReader& entry : json.objects("added_tokens")) {
    AddedToken token = read_added_token(entry);
    token.id = static_cast<TokenId>(entry.integer("id", kMostTokens - 1));
    tokens.add(std::move(token), entry.place());
  }
  return tokens.take();
}

}  // namespace

std::unique_ptr<Tokenizer> make_pipeline(PipelineParts parts) { return std::make_unique<Pipeline>(std::move(parts)); }

std::unique_ptr<Tokenizer> make_pipeline(const JsonReader& json) {
  PipelineParts parts;
  parts.model = make_token_model(json.object("model"));
  parts.added = read_added_tokens(json, parts.model->vocabulary());
  if (json.find("normalizer") != nullptr) parts.normalizer = make_normalizer(json.object("normalizer"));
  if (json.find("pre_tokenizer") != nullptr) parts.pre_tokenizer = make_pre_tokenizer(json.object("pre_tokenizer"));
  if (json.find("post_processor") != nullptr) parts.surrounding = read_post_processor(json.object("post_processor"));
  if (json.find("decoder") != nullptr) parts.decoder = make_decoder(json.object("decoder"));
  return make_pipeline(std::move(parts));
}

}  // namespace l2l::text
