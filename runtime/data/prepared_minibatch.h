// A minibatch's samples in ordinary memory, read before the step that takes them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/bytes.h"
#include "core/workers.h"
#include "eps/shards.h"
#include "runtime/data/samples.h"

namespace l2l::runtime {

struct MinibatchShape {
  int devices = 1;                                 // of all ranks
  int parts = 0;                                   // batch.parts
  int microbatches = 1;                            // of all devices
  eps::Rank rank = {};                             // which has an equal part of them
  int sequences = 1;                               // of a microbatch
  std::vector<std::int64_t> lengths;               // that sequences may have, ascending
  bool packed = false;                             // rows have fields (compiler::RowField)
  std::int64_t input_words = 1, target_words = 1;  // of a row

  int samples() const { return microbatches * sequences; }  // of all ranks
  int own_microbatches() const { return microbatches / rank.count; }
  int first_microbatch() const { return rank.index * own_microbatches(); }
};

// Sequence `index` of a microbatch. `tokens`, `targets`: [sequences, length]; of a custom model [samples, words];
// `fields`: [4, sequences, length] or
// empty.
SequenceView sequence_of(std::span<std::int32_t> tokens, std::span<std::int32_t> targets,
                         std::span<std::int32_t> fields, int sequences, int index);

// A rank's part of it, whose microbatches have numbers from 0 on. Thread-bound. Allocates in its constructor, but for
// lists of samples where there are several lengths.
class PreparedMinibatch {
 public:
  explicit PreparedMinibatch(MinibatchShape shape);
  static Bytes bytes(const MinibatchShape& shape);

  // Has `write` write the samples of this rank's sequences, each once, on all threads of `workers`. Where there are
  // several lengths, samples of like length share a microbatch (data/buckets.h), by what `rows` says of each sample of
  // all ranks.
  using RowsOf = std::function<std::int64_t(int sample)>;
  using Write = std::function<void(int sample, const SequenceView& sequence)>;
  void fill(const RowsOf& rows, const Write& write, Workers& workers);

  const MinibatchShape& shape() const { return shape_; }
  // Of a microbatch, as it was filled: the index of its length, and [rows] of tokens and targets and [4, rows] of
  // fields.
  int length(int microbatch) const {
    return length_of_[static_cast<std::size_t>(shape_.first_microbatch() + microbatch)];
  }
  std::span<std::int32_t> tokens(int microbatch) { return part(microbatch, 0, inputs()); }
  std::span<std::int32_t> targets(int microbatch) { return part(microbatch, inputs(), targets()); }
  std::span<std::int32_t> fields(int microbatch) {
    const std::size_t both = inputs() + targets();
    return part(microbatch, both, lines(shape_) - both);
  }

 private:
  std::size_t inputs() const { return static_cast<std::size_t>(shape_.input_words); }
  std::size_t targets() const { return static_cast<std::size_t>(shape_.target_words); }
  // Lines of [rows] of each microbatch: tokens, targets, fields.
  static std::size_t lines(const MinibatchShape& shape);
  static std::size_t most_rows(const MinibatchShape& shape);
  std::span<std::int32_t> part(int microbatch, std::size_t line, std::size_t count);

  const MinibatchShape shape_;
  std::vector<int> length_of_, sample_of_;  // of each microbatch, each sequence, of all ranks
  std::vector<std::int32_t> values_;        // [own microbatches, lines, rows]
};

}  // namespace l2l::runtime
