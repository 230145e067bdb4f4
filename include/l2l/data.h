// A program's own data: a source of samples, instead of files.
//
//   options.data.train_source = std::make_shared<l2l::MemorySource>(std::move(samples));
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "l2l/export.h"

namespace l2l {

struct Options;
struct TensorSpec;

// Which sample is drawn. data.order = "random" takes each index once an epoch, another way in each epoch.
struct SamplePosition {
  std::uint64_t index = 0;  // of the sample, below SampleSource::size()
  std::uint64_t epoch = 0;  // from 0; of validation always 0
  std::uint64_t number =
      0;  // of all that are drawn, from 0: a key for random numbers of its own; of validation `index`
};

// Where a sample is written: spans of one element for each row of a sequence, model.sequence of them. They hold what
// stands for nothing: tokens of 0, targets of -1, and all rows as one document.
struct L2L_API SampleView {
  std::span<std::int32_t> tokens;  // ids, below model.vocabulary
  // What the head learns of each row; -1: nothing. model.head = "language": a token, most often the one of the next row
  // (bert, roberta: of this row, whose own is masked). "tokens": its class. "classification": the document's class, at
  // its last row, of encoders at its first; "regression": there the bits of a float.
  std::span<std::int32_t> targets;
  // Where data.samples = "packed", else empty. Of each row: its position in its document, the first row of that and the
  // row behind its last, and its token type. Rows see those of their own document alone.
  std::span<std::int32_t> positions = {}, begins = {}, ends = {}, token_types = {};

  // Of a custom model: its model.inputs and model.targets. `tokens` then are the elements of all inputs, one tensor
  // after the other, in the order of memory; each tensor begins at a word, which holds four u8, or two f16 or bf16.
  // `targets` are those of all targets. All begin as 0.
  std::span<const TensorSpec> input_tensors = {}, target_tensors = {};
  // Writes a tensor's elements, row-major, by its place in these. Throws BadInput unless there are as many, of its
  // type: floats for f32, and rounded for f16 and bf16 (ties to bf16 away from zero), whose bits are taken as well.
  void set_input(std::size_t tensor, std::span<const float> values) const;
  void set_input(std::size_t tensor, std::span<const std::int32_t> values) const;
  void set_input(std::size_t tensor, std::span<const std::uint8_t> values) const;
  void set_input(std::size_t tensor, std::span<const std::uint16_t> bits) const;
  void set_target(std::size_t tensor, std::span<const float> values) const;
  void set_target(std::size_t tensor, std::span<const std::int32_t> values) const;
  void set_target(std::size_t tensor, std::span<const std::uint8_t> values) const;
  void set_target(std::size_t tensor, std::span<const std::uint16_t> bits) const;
};

// Samples that a program makes, reads or generates. What it says must not change while a Trainer has it. All functions
// are called from several threads at once, none of which computes: samples are read ahead while a step runs.
class L2L_API SampleSource {
 public:
  virtual ~SampleSource();
  // Samples in an epoch; at least one.
  virtual std::uint64_t size() const = 0;
  // A hash of all that read() gives: a run that is resumed refuses a source whose identity has changed.
  virtual std::uint64_t identity() const = 0;
  // Writes a sample, the same one whenever it is asked for, so that a resumed run needs no state. Returns its rows, at
  // least one; those behind them become padding. Of a custom model returns what the sample counts for in the sum by
  // which the minibatch's loss is divided, at least 1, most often that. What it throws ends the run: an Error of the
  // library as it is, anything else nested (std::rethrow_if_nested) in an Error that names the sample. A call that
  // sleeps for ten minutes is a hang (set_hang_handler(), l2l/errors.h).
  virtual std::int64_t read(const SamplePosition& position, const SampleView& sample) const = 0;
};

// Samples in memory.
class L2L_API MemorySource final : public SampleSource {
 public:
  struct Sample {
    std::vector<std::int32_t> tokens;        // at most model.sequence; where there are no targets, one more
    std::vector<std::int32_t> targets = {};  // one for each token; empty: each row learns the next token
  };
  // Throws BadInput for a sample with no tokens, with one and no targets, or with another number of targets than
  // tokens.
  explicit MemorySource(std::vector<Sample> samples);
  ~MemorySource() override;

  std::uint64_t size() const override { return samples_.size(); }
  std::uint64_t identity() const override { return identity_; }
  std::int64_t read(const SamplePosition& position, const SampleView& sample) const override;

 private:
  std::vector<Sample> samples_;
  std::uint64_t identity_ = 0;
};

// Samples of a function, as SampleSource::read().
class L2L_API CallbackSource final : public SampleSource {
 public:
  using Read = std::function<std::int64_t(const SamplePosition&, const SampleView&)>;
  // Throws BadInput where there is no function.
  CallbackSource(std::uint64_t size, std::uint64_t identity, Read read);
  ~CallbackSource() override;

  std::uint64_t size() const override { return size_; }
  std::uint64_t identity() const override { return identity_; }
  std::int64_t read(const SamplePosition& position, const SampleView& sample) const override;

 private:
  std::uint64_t size_, identity_;
  Read read_;
};

// What options take from files, in the order of the data: for a source that changes, filters or mixes it. Masking for
// bert and roberta is as options say.
class L2L_API FileSource final : public SampleSource {
 public:
  enum class Files { train, validation };
  // Finds, and where it must tokenizes, data.train or data.validation. Throws BadInput as Trainer does, and where there
  // are none.
  FileSource(const Options& options, Files files);
  ~FileSource() override;

  std::uint64_t size() const override;
  std::uint64_t identity() const override;
  std::int64_t read(const SamplePosition& position, const SampleView& sample) const override;

 private:
  struct L2L_HIDDEN Implementation;
  std::unique_ptr<const Implementation> implementation_;
};

}  // namespace l2l
