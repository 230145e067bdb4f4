// tokenizer_config.json and added_tokens.json, which may lie beside the files of a tokenizer.
#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/json_reader.h"

namespace l2l::text {

// Immutable.
class TokenizerConfig {
 public:
  // Empty where the folder has no such file. Throws BadInput.
  explicit TokenizerConfig(const std::filesystem::path& folder);
  TokenizerConfig(const TokenizerConfig&) = delete;

  const JsonReader& json() const { return reader_; }
  // Of added_tokens_decoder, or without it of added_tokens.json, as directories of transformers before 4.34 have it; in
  // the order of their ids. `find`, `size`: the id of a token of the vocabulary, and its ids' end, which
  // added_tokens.json may not contradict. Throws BadInput.
  std::vector<AddedToken> added_tokens(const std::function<std::optional<TokenId>(const std::string&)>& find,
                                       std::int64_t size) const;
  // Where these are listed, for messages.
  std::string place_of_added() const;
  // tokenizer_class without "Fast"; empty: the file names none. Throws BadInput where it is none of `known`.
  std::string class_among(std::initializer_list<std::string_view> known) const;

 private:
  bool lists_added() const { return reader_.find("added_tokens_decoder") != nullptr; }
  std::vector<AddedToken> listed_tokens() const;
  std::vector<AddedToken> tokens_of_older_file() const;

  const std::filesystem::path folder_;
  const nlohmann::json json_;
  const JsonReader reader_;
};

}  // namespace l2l::text
