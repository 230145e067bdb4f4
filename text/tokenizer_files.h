// The kinds of files that tokenizers come in.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace l2l::text {

// Those that `path` stands for: itself, or the files in that directory. Throws BadInput.
std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& path);
// All of a file. Throws BadInput when it cannot be read or is longer than any tokenizer.
std::string read_tokenizer_file(const std::filesystem::path& file);

std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& file);
// BERT's WordPiece: a token on each line. The file tokenizer_config.json beside it may change what is normalized and
// add tokens; a class that does more than BERT's is refused.
std::unique_ptr<Tokenizer> open_vocabulary_list(const std::filesystem::path& file);
// GPT-2's or RoBERTa's byte-level pairs, with tokenizer_config.json beside them as above.
std::unique_ptr<Tokenizer> open_vocabulary_and_merges(const std::filesystem::path& vocabulary,
                                                      const std::filesystem::path& merges);
// tiktoken's: a token in base64 and its rank on each line. Which regular expression and which special tokens belong to
// it follows from the number of tokens.
std::unique_ptr<Tokenizer> open_ranks(const std::filesystem::path& file);
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& file);

}  // namespace l2l::text
