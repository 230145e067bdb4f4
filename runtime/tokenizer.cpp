#include "l2l/tokenizer.h"

#include "l2l/errors.h"
#include "text/tokenizer.h"

namespace l2l {

struct Tokenizer::Implementation {
  std::unique_ptr<text::Tokenizer> tokenizer;
};

Tokenizer::Tokenizer(const std::filesystem::path& tokenizer)
    : implementation_(std::make_unique<Implementation>(Implementation{text::open_tokenizer_or_bytes(tokenizer)})) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::int64_t Tokenizer::vocabulary() const { return implementation_->tokenizer->vocabulary(); }

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool special) const {
  std::vector<std::int32_t> ids;
  implementation_->tokenizer->make_encoder()->encode(text, special, ids);
  return ids;
}

std::vector<std::vector<std::int32_t>> Tokenizer::encode_all(std::span<const std::string_view> texts, bool special,
                                                             int threads) const {
  if (threads < 1) throw BadInput("encode_all(): " + std::to_string(threads) + " threads; it takes 1 or more");
  return text::encode_all(*implementation_->tokenizer, texts, special, threads);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool special) const {
  return implementation_->tokenizer->decode(ids, special);
}

}  // namespace l2l
