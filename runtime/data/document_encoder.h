// Documents of text to token ids, on several threads.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "core/workers.h"
#include "runtime/data/text_documents.h"
#include "text/tokenizer.h"

namespace l2l::runtime {

struct EncodedDocument {
  std::vector<std::int32_t> ids;
  std::vector<bool> learnt;         // of each id; empty: all
  std::vector<std::int32_t> types;  // of each id, its token type; empty: 0
  std::int32_t label = kNoLabel;    // as in DataFiles::labels
  std::vector<std::int32_t> tags;   // of each id, as there; empty: the document has no words
};

// That of data.tokenizer. Throws BadInput naming the key.
std::unique_ptr<text::Tokenizer> open_data_tokenizer(const std::filesystem::path& tokenizer);

// Thread-bound.
class DocumentEncoder {
 public:
  // Throws BadInput when the tokenizer cannot be opened. `settings` must outlive the encoder.
  DocumentEncoder(const TextSettings& settings, int threads);

  std::int64_t vocabulary() const { return tokenizer_->vocabulary(); }
  // The same order; ids do not depend on the number of threads. Throws BadInput with the reason and, in `failed`, which
  // document it is.
  std::vector<EncodedDocument> encode(std::span<const TextDocument> documents, std::size_t& failed);

 private:
  EncodedDocument encode(const TextDocument& document, text::Encoder& encoder) const;
  void encode_words(const TextDocument& document, text::Encoder& encoder, EncodedDocument& encoded) const;
  void encode_text(const TextDocument& document, text::Encoder& encoder, EncodedDocument& encoded) const;
  void encode_pair(const TextDocument& document, text::Encoder& encoder, EncodedDocument& encoded) const;
  void mark_chat(const TextDocument& document, text::Encoder& encoder, EncodedDocument& encoded) const;

  const TextSettings& settings_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::int32_t end_of_text_ = -1;  // -1: the tokenizer names none
  Workers workers_;
  std::vector<std::unique_ptr<text::Encoder>> encoders_;  // of each thread
};

}  // namespace l2l::runtime
