// Tokens that are found in a text before it is cut: special ones, and those that were added to a vocabulary.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/json_reader.h"
#include "text/vocabulary.h"

namespace l2l::text {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool special = false;                 // left out of decoded text
  bool normalized = false;              // looked for in the normalized text, else in the text as it is
  bool single_word = false;             // only where no word character is beside it
  bool lstrip = false, rstrip = false;  // takes the white space before it, behind it
};

// All but the id, from a field of a tokenizer file that lists such tokens.
AddedToken read_added_token(const JsonReader& entry);

// Gathers the tokens that a file adds to a vocabulary, as Hugging Face's library does: a token of the vocabulary keeps
// its id, others are numbered one by one from `count` on, and of several with one content the last one's flags count.
class AddedTokens {
 public:
  // `count`: of entries in the vocabulary, which must outlive this.
  AddedTokens(const Vocabulary& vocabulary, std::int64_t count) : vocabulary_(vocabulary), next_(count) {}

  // `token.id`: as the file says. Throws BadInput, beginning with `place`, where the library would give it another one.
  void add(AddedToken token, const std::string& place);
  std::vector<AddedToken> take() { return std::move(tokens_); }

 private:
  const Vocabulary& vocabulary_;
  std::int64_t next_;  // the id of the next token that is not in the vocabulary
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, std::size_t> places_;  // in tokens_, by content
};

// A part of a text: a token, or text between tokens.
struct TokenOrText {
  std::size_t begin = 0, end = 0;
  TokenId id = -1;  // -1: text
};

// Finds some tokens in texts, the longest where several begin. Of equal ones it takes the first; Hugging Face's
// library, now one and now the other. Immutable.
class TokenFinder {
 public:
  TokenFinder() = default;
  explicit TokenFinder(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  // Replaces `parts`: all of `text`, in order.
  void find(std::string_view text, std::vector<TokenOrText>& parts) const;

 private:
  // The longest token at the beginning of `text`, or null.
  const AddedToken* match(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // by content
  // By first byte: index of its first token, and the lengths of its tokens, the longest first.
  std::uint32_t begin_[257] = {};
  std::vector<std::size_t> lengths_[256];
};

}  // namespace l2l::text
