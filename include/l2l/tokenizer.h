// Text to token ids and back, by the tokenizers that data.tokenizer takes.
//
//   const l2l::Tokenizer tokenizer(trainer.options().data.tokenizer);
//   std::cout << tokenizer.decode(trainer.generate(tokenizer.encode("Once upon a time"), {}));
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "l2l/export.h"

namespace l2l {

// Immutable and thread-safe.
class L2L_API Tokenizer {
 public:
  // As DataOptions::tokenizer: "bytes", a tokenizer.json, a SentencePiece .model, a vocab.txt, tiktoken's ranks, or a
  // directory with one of these, such as a checkpoint. Throws BadInput naming file, field and reason.
  explicit Tokenizer(const std::filesystem::path& tokenizer);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  std::int64_t vocabulary() const;  // all ids are below
  // Parts that are not UTF-8 count as U+FFFD, but with "bytes". `special`: with the tokens that belong around a text,
  // such as [CLS] and [SEP]. Throws BadInput where there is no token for a part of it.
  std::vector<std::int32_t> encode(std::string_view text, bool special = false) const;
  // The ids of each text, on `threads` threads, at least one: many texts take less time so than one by one.
  std::vector<std::vector<std::int32_t>> encode_all(std::span<const std::string_view> texts, bool special = false,
                                                    int threads = 1) const;
  // `special`: special tokens are part of the text. Throws BadInput for an id that stands for nothing; with "bytes" it
  // becomes U+FFFD.
  std::string decode(std::span<const std::int32_t> ids, bool special = false) const;

 private:
  struct L2L_HIDDEN Implementation;
  std::unique_ptr<const Implementation> implementation_;
};

}  // namespace l2l
