// What training and validation draw their sequences from.
#pragma once

#include <cstdint>
#include <vector>

#include "l2l/data.h"
#include "l2l/graph.h"
#include "models/shape.h"
#include "runtime/data/masking.h"

namespace l2l::runtime {

// How sequences are made (data.samples): windows of one stream of tokens; documents, packed into sequences; a document
// in each sequence.
enum class SampleKind : std::uint8_t { stream, packed, padded };

struct DatasetSettings {
  std::int64_t sequence = 0;    // tokens of a sample
  std::int64_t vocabulary = 0;  // tokens lie below it
  std::uint64_t seed = 0;       // of the order of samples, and of masks
  Masking masking{};
  bool in_order = false;  // samples come in the order of the data, in every epoch the same
  SampleKind kind = SampleKind::stream;
  models::HeadKind head = models::HeadKind::language;
  bool causal = true;                                 // each row sees those before it alone
  std::int64_t labels = 0;                            // classes of a head that tells classes apart
  std::int64_t token_types = 0;                       // that the model knows
  std::vector<TensorSpec> inputs = {}, targets = {};  // of a custom model
};

// Where a sample is written: spans of [rows] each, at least those that the sample takes. Row fields
// (compiler::RowField) are empty where the model takes none.
using SequenceView = SampleView;

// Immutable. A sample is a pure function of seed and position (law 5). Sampling allocates nothing.
class Samples {
 public:
  virtual ~Samples() = default;

  virtual std::uint64_t tokens() const = 0;
  // XXH64 of the data, to tell whether they have changed since a checkpoint was written.
  virtual std::uint64_t hash() const = 0;
  // Throws BadInput, naming the files and what is needed, when there is not one sample.
  virtual void require_training_data() const = 0;

  virtual std::uint64_t samples_per_epoch() const = 0;
  // Sample number `position` of the endless training data, each of which comes once an epoch.
  virtual void sample(std::uint64_t position, const SequenceView& sequence) const = 0;
  // The rows that it takes; what is behind them is padding.
  virtual std::int64_t rows(std::uint64_t position) const = 0;

  // Validation: the samples in the order of the data. Behind the last one there is nothing to predict.
  virtual std::uint64_t windows() const = 0;
  virtual void validation_window(std::uint64_t window, const SequenceView& sequence) const = 0;
  virtual std::int64_t validation_rows(std::uint64_t window) const = 0;
};

}  // namespace l2l::runtime
