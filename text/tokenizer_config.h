// tokenizer_config.json, which may lie beside the files of a tokenizer.
#pragma once

#include <filesystem>
#include <initializer_list>
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
  // Of added_tokens_decoder, in the order of their ids. Throws BadInput.
  std::vector<AddedToken> added_tokens() const;
  // tokenizer_class without "Fast"; empty: the file names none. Throws BadInput where it is none of `known`.
  std::string class_among(std::initializer_list<std::string_view> known) const;

 private:
  const nlohmann::json json_;
  const JsonReader reader_;
};

}  // namespace l2l::text
