// Sequences made of documents that do not see each other, packed or one in each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/samples.h"
#include "runtime/data/token_store.h"

namespace l2l::runtime {

// A part of a document that lies within one sequence.
struct Piece {
  std::uint64_t begin = 0;        // of its tokens in the stream
  std::uint32_t rows = 0;         // that it takes
  std::int32_t label = kNoLabel;  // of the document, as in DataFiles::labels
  std::uint64_t last = 0;         // with labels: the document's last token, which stands in the last row
  bool follows = false;           // a further choice of a question, which stays with the one before it
};

// The rows that a document takes: a row for each token of masked-language modelling, and one less where each token
// predicts the next one.
inline std::uint64_t rows_of_document(std::uint64_t tokens, bool predicts_next) {
  return predicts_next && tokens > 0 ? tokens - 1 : tokens;
}

// Immutable. A document that is longer than a sequence is cut, so that all its tokens are predicted but the first;
// padded, what is behind its first sequence is left out. A document with nothing to predict is left out.
//
// Documents with labels are not cut: what does not fit is left out before the last token, which the tokenizers of
// encoders add. The label is the target of the first row, or, where each row sees those before it alone, of the last;
// of words, of the row of each word's first token. The choices of a question share a sequence, as documents that do not
// see each other; where they do not fit, each has an equal part of it.
//
// Packed: best fit, the longest first, fixed once for all epochs. Pieces of a sequence lie in it in the order of the
// data. Behind them, and behind a padded document, are rows of token 0 that predict nothing and see only themselves.
class DocumentDataset final : public Samples {
 public:
  // Checks all tokens. Throws BadInput naming file and offset when one is not below the vocabulary, and when there are
  // no documents or none with anything to predict.
  DocumentDataset(const DataFiles& files, const DatasetSettings& settings);

  std::uint64_t tokens() const override { return store_.tokens(); }
  std::uint64_t hash() const override { return hash_; }
  void require_training_data() const override {}  // the constructor has seen to it
  std::uint64_t samples_per_epoch() const override { return first_piece_.size() - 1; }
  void sample(std::uint64_t position, const SequenceView& sequence) const override;
  std::int64_t rows(std::uint64_t position) const override;
  std::uint64_t windows() const override { return samples_per_epoch(); }
  void validation_window(std::uint64_t window, const SequenceView& sequence) const override;
  std::int64_t validation_rows(std::uint64_t window) const override;

  // The pieces of a sequence. For tests, and for the figures of a run.
  std::span<const Piece> pieces(std::uint64_t sample) const;
  std::uint64_t truncated() const { return truncated_; }  // documents

  // The most memory that an object for these files takes, while it is made.
  static Bytes bytes(const DataFiles& files, std::int64_t sequence);

 private:
  void warn_of_one_class(const DataFiles& files) const;
  void cut(const DataFiles& files);
  void cut_questions(const DataFiles& files);
  bool has_labels() const { return settings_.head != models::HeadKind::language; }
  void pack();
  bool learns(const Piece& piece) const;
  std::uint64_t chosen(std::uint64_t position) const;
  std::int64_t rows_of(std::uint64_t sample) const;
  // Returns how many rows are used.
  std::size_t fill(std::uint64_t sample, const SequenceView& sequence) const;
  void mask(const SequenceView& sequence, std::size_t rows, std::uint64_t number, bool training) const;

  const DatasetSettings settings_;
  const bool predicts_next_, flagged_;
  const std::string description_;
  const TokenStore store_;
  std::vector<Piece> pieces_;               // in the order of the sequences that they are in
  std::vector<std::uint64_t> first_piece_;  // of each sequence; and the number of all pieces
  std::vector<std::int32_t> tags_;          // of each token, where words are told apart
  std::uint64_t hash_ = 0, truncated_ = 0;
};

}  // namespace l2l::runtime
