// The kinds of files that tokenizers come in.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace l2l::text {

// All that are read of the tokenizer that `path` stands for, the file itself or those in that directory: the vocabulary
// first, and its merges (has_merges()). Where these do not describe the tokenizer in full, tokenizer_config.json and
// added_tokens.json beside them follow, the latter with special_tokens_map.json. Throws BadInput.
std::vector<std::filesystem::path> tokenizer_files(const std::filesystem::path& path);
// Whether tokenizer_files() are a vocab.json with merges.txt, and what is beside them.
bool has_merges(const std::vector<std::filesystem::path>& files);
// Whether the file is a list of ranks of tiktoken, which is known from its first line: SentencePiece's are binary.
// Throws BadInput when it cannot be read.
bool has_ranks(const std::filesystem::path& file);
// All of a file. Throws BadInput when it cannot be read, is longer than any tokenizer, or is a pointer of Git LFS.
std::string read_tokenizer_file(const std::filesystem::path& file);

std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& file);
// BERT's WordPiece: a token on each line, of which white space at the end is no part. The file tokenizer_config.json
// beside it may change what is normalized and add tokens, as may added_tokens.json; a class that does more than BERT's
// is refused.
std::unique_ptr<Tokenizer> open_vocabulary_list(const std::filesystem::path& file);
// GPT-2's or RoBERTa's byte-level pairs, with these files beside them as above.
std::unique_ptr<Tokenizer> open_vocabulary_and_merges(const std::filesystem::path& vocabulary,
                                                      const std::filesystem::path& merges);
// tiktoken's: a token in base64 and its rank on each line. Which regular expression and which special tokens belong to
// it follows from the number of tokens.
std::unique_ptr<Tokenizer> open_ranks(const std::filesystem::path& file);
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& file);

}  // namespace l2l::text
