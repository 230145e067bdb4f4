#include "text/added_tokens.h"

#include <algorithm>
#include <functional>

#include "l2l/errors.h"
#include "text/characters.h"
#include "text/utf8.h"

namespace l2l::text {
namespace {

unsigned char first_byte(const AddedToken& token) { return static_cast<unsigned char>(token.content[0]); }

bool stands_alone(std::string_view before, std::string_view behind) {
  return (before.empty() || !is_word(last_code_point(before).value)) &&
         (behind.empty() || !is_word(first_code_point(behind).value));
}

std::size_t space_at_end(std::string_view text) {
  const std::size_t size = text.size();
  while (!text.empty() && is_whitespace(last_code_point(text).value)) text.remove_suffix(last_code_point(text).bytes);
  return size - text.size();
}

std::size_t space_at_begin(std::string_view text) {
  const std::size_t size = text.size();
  while (!text.empty() && is_whitespace(first_code_point(text).value)) text.remove_prefix(first_code_point(text).bytes);
  return size - text.size();
}

}  // namespace

AddedToken read_added_token(const JsonReader& entry) {
  AddedToken token;
  token.content = entry.string("content");
  token.special = entry.boolean_or("special", false);
  token.normalized = entry.boolean_or("normalized", !token.special);
  token.single_word = entry.boolean_or("single_word", false);
  token.lstrip = entry.boolean_or("lstrip", false);
  token.rstrip = entry.boolean_or("rstrip", false);
  return token;
}

void AddedTokens::add(AddedToken token, const std::string& place) {
  const auto [entry, is_new] = places_.emplace(token.content, tokens_.size());
  if (!is_new) {
    AddedToken& before = tokens_[entry->second];
    token.id = before.id;
    token.special |= before.special;
    before = std::move(token);
    return;
  }
  const std::optional<TokenId> known = vocabulary_.find(token.content);
  if (!known && token.id != next_ && !token.content.empty()) {
    throw BadInput(place + ": " + json_text(nlohmann::json(token.content)) + " has the id " + std::to_string(token.id) +
                   ", but Hugging Face's library gives it " + std::to_string(next_) +
                   ": tokens that are not in the vocabulary follow it one by one, in the order of the list; save the "
                   "tokenizer anew by transformers: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)");
  }
  token.id = known.value_or(token.id);
  if (!token.content.empty()) next_ = std::max<std::int64_t>(next_, token.id + 1);
  tokens_.push_back(std::move(token));
}

TokenFinder::TokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::ranges::stable_sort(tokens_, {}, &AddedToken::content);
  const auto repeated = std::ranges::unique(tokens_, {}, &AddedToken::content);
  tokens_.erase(repeated.begin(), repeated.end());
  for (const AddedToken& token : tokens_) {
    ++begin_[first_byte(token) + 1];
    lengths_[first_byte(token)].push_back(token.content.size());
  }
  for (int byte = 0; byte < 256; ++byte) begin_[byte + 1] += begin_[byte];
  for (std::vector<std::size_t>& lengths : lengths_) {
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  }
}

const AddedToken* TokenFinder::match(std::string_view text) const {
  const auto byte = static_cast<unsigned char>(text[0]);
  const auto begin = tokens_.begin() + begin_[byte], end = tokens_.begin() + begin_[byte + 1];
  for (const std::size_t length : lengths_[byte]) {
    if (length > text.size()) continue;
    const std::string_view content = text.substr(0, length);
    const auto found = std::lower_bound(
        begin, end, content, [](const AddedToken& token, std::string_view wanted) { return token.content < wanted; });
    if (found != end && found->content == content) return &*found;
  }
  return nullptr;
}

void TokenFinder::find(std::string_view text, std::vector<TokenOrText>& parts) const {
  parts.clear();
  std::size_t done = 0;
  for (std::size_t place = 0; place < text.size() && !tokens_.empty();) {
    const AddedToken* const token = match(text.substr(place));
    if (token == nullptr) {
      ++place;
      continue;
    }
    std::size_t begin = place, end = place + token->content.size();
    place = end;
    if (token->single_word && !stands_alone(text.substr(0, begin), text.substr(end))) continue;
    if (token->lstrip) begin = std::max(done, begin - space_at_end(text.substr(0, begin)));
    if (token->rstrip) end += space_at_begin(text.substr(end));
    if (begin >= end) continue;  // the one before has taken all of it
    if (done < begin) parts.push_back({done, begin});
    parts.push_back({begin, end, token->id});
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size()});
}

}  // namespace l2l::text
