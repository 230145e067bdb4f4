// Sequences cut from one stream of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/data/samples.h"
#include "runtime/data/token_store.h"

namespace l2l::runtime {

// The samples of `files` that the settings ask for. Throws BadInput as their constructors do.
std::unique_ptr<Samples> make_samples(const DataFiles& files, const DatasetSettings& settings);
// Of one set of files, or a mixture of several; `weights`: of each, or empty.
std::unique_ptr<Samples> make_samples(const std::vector<DataFiles>& sources, const std::vector<double>& weights,
                                      const DatasetSettings& settings);

// Immutable. Reads the tokens of a sample when it is drawn.
class Dataset final : public Samples {
 public:
  // Checks all tokens. Throws BadInput when the stream has fewer than two, or, naming file and offset, when a token is
  // not below the vocabulary.
  Dataset(const DataFiles& files, const DatasetSettings& settings);

  std::uint64_t tokens() const override { return store_.tokens(); }
  std::uint64_t hash() const override { return hash_; }

  // Throws BadInput, naming the files, what they have and what is needed, when the stream is shorter than one window of
  // sequence + 1 tokens.
  void require_training_data() const override;

  // Windows per epoch. Each epoch draws a phase in [0, sequence), cuts the stream from there into windows of
  // sequence + 1 tokens that begin `sequence` tokens apart, and visits each window once in random order. The number is
  // the same for every phase, so an epoch may leave out up to one window. In order, each epoch has all whole windows
  // from the first token on.
  std::uint64_t samples_per_epoch() const override { return per_epoch_; }
  // With masking, each epoch draws new masks.
  void sample(std::uint64_t position, const SequenceView& sequence) const override;
  std::int64_t rows(std::uint64_t) const override { return settings_.sequence; }

  // Windows of the validation data, which together predict every token but the first exactly once.
  std::uint64_t windows() const override { return (predicted() + sequence_ - 1) / sequence_; }
  std::uint64_t predicted() const { return tokens() - 1; }
  // Beyond the end of the stream tokens are 0 and targets -1. With masking, a window predicts its masked tokens, the
  // same ones in every call, and the last window begins early enough to be full.
  void validation_window(std::uint64_t window, const SequenceView& sequence) const override;
  std::int64_t validation_rows(std::uint64_t) const override { return settings_.sequence; }

 private:
  void masked_window(std::uint64_t window, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) const;
  std::uint64_t phase(std::uint64_t epoch) const;
  // Copies tokens from `begin` on, up to the end of the stream; returns how many.
  std::size_t copy(std::uint64_t begin, std::span<std::int32_t> destination) const;

  const DatasetSettings settings_;
  const std::uint64_t sequence_;
  const std::string description_;  // names the files in messages
  const TokenStore store_;
  std::uint64_t per_epoch_ = 0, hash_ = 0;
};

}  // namespace l2l::runtime
