// Tokenizers: text to token ids and back, as Hugging Face's tokenizers, SentencePiece and tiktoken do it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace l2l::text {

// Thread-bound. Keeps what it has learnt of frequent words, so use one for many texts.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the ids of `text`. Parts that are not UTF-8 count as U+FFFD. `special`: with the tokens that belong around
  // a text, such as [CLS] and [SEP]. Throws BadInput where the tokenizer has no token for a part of it.
  virtual void encode(std::string_view text, bool special, std::vector<std::int32_t>& ids) = 0;
  // Two texts that belong together, such as question and answer, with the tokens that belong around them; `types`: of
  // each id, its token type. Throws BadInput where the tokenizer does not say how.
  virtual void encode_pair(std::string_view first, std::string_view second, std::vector<std::int32_t>& ids,
                           std::vector<std::int32_t>& types);
};

// Immutable and thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t vocabulary() const = 0;  // all ids are below
  // The tokenizer must outlive the encoder.
  virtual std::unique_ptr<Encoder> make_encoder() const = 0;
  // `special`: special tokens are part of the text. Throws BadInput for an id that stands for nothing.
  virtual std::string decode(std::span<const std::int32_t> ids, bool special) const = 0;
};

// `path`: a tokenizer.json; a SentencePiece .model; a vocab.txt of BERT; a list of ranks of tiktoken; or a directory
// with one of these or with vocab.json and merges.txt. Throws BadInput naming file, field and reason: also for what the
// file asks for that is not built, and where this program was built without the libraries that it takes.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& path);

// The same, or "bytes": each byte is a token, and what is none is decoded to U+FFFD.
std::unique_ptr<Tokenizer> open_tokenizer_or_bytes(const std::filesystem::path& path);

// Whether the directory has one of the files that open_tokenizer() looks for.
bool has_tokenizer(const std::filesystem::path& folder);
// A hash of all files that open_tokenizer() reads. Throws BadInput where it finds none, or one cannot be read.
std::uint64_t hash_of(const std::filesystem::path& path);

// The ids of each text, on `threads` threads.
std::vector<std::vector<std::int32_t>> encode_all(const Tokenizer& tokenizer, std::span<const std::string_view> texts,
                                                  bool special, int threads);

}  // namespace l2l::text
