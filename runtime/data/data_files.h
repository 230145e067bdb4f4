// The files of training and validation data: found and examined, not read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"

namespace l2l::runtime {

// How tokens are stored: bytes, each of them a token, with a separator (token 0) before every file; raw little-endian
// uint16 or uint32 without a header, with nothing between files.
enum class TokenFormat : std::uint8_t { text, tokens, tokens32 };

std::uint64_t token_bytes(TokenFormat format);

// Of tokens32 with flags: the token, its token type, and whether it is not to be predicted.
inline constexpr std::uint32_t kTokenOfFlagged = 0x3fffffff, kSecondType = 0x40000000, kNotLearnt = 0x80000000;
inline constexpr std::int32_t kMostTokenType = 1;

// Of what has no label. As the bits of a number it is a NaN.
inline constexpr std::int32_t kNoLabel = -1;

struct DataFile {
  std::filesystem::path path;
  Bytes bytes = 0;                  // of its tokens
  std::filesystem::path text = {};  // the file that these tokens were made from; empty: they are the user's own
  Bytes begin = 0;                  // of the tokens in the file

  const std::filesystem::path& name() const { return text.empty() ? path : text; }  // for messages
};

// A stream of tokens: that of its files, one behind the other.
struct DataFiles {
  std::string key;  // key of the config, for messages: "data.train"
  TokenFormat format = TokenFormat::text;
  std::vector<DataFile> files;
  std::vector<std::uint64_t> document_ends = {};  // in tokens of the stream; empty: documents are not told apart
  bool flagged = false;                           // tokens32 with flags
  // What the head learns of each document, or, where it tells words apart, of each token (kNoLabel: nothing), as in
  // compiler::Region::targets; empty: documents have no labels.
  std::vector<std::int32_t> labels = {};

  std::uint64_t tokens() const;     // separators included
  std::string description() const;  // key and files, for messages
};

// Expands patterns (runtime/data/path_pattern.h): files in the order of the patterns, those of one pattern sorted by
// name, and no file twice. Throws BadInput, naming key and file, when a pattern matches nothing, a file is not regular
// or not readable, or there is no file at all.
std::vector<DataFile> find_files(const std::vector<std::string>& patterns, const std::string& key);

// Raw tokens of one format. Throws also when a file has no whole number of tokens.
DataFiles find_data(const std::vector<std::string>& patterns, TokenFormat format, const std::string& key);

}  // namespace l2l::runtime
