// The samples of a program's own source (include/l2l/data.h).
#pragma once

#include <memory>

#include "runtime/data/samples.h"

namespace l2l::runtime {

// Immutable. What the source writes is checked before a device sees it.
class SourceSamples final : public Samples {
 public:
  // Throws BadInput where the source is empty.
  SourceSamples(std::shared_ptr<const SampleSource> source, const DatasetSettings& settings);

  std::uint64_t tokens() const override;  // were each sample as long as a sequence
  std::uint64_t hash() const override { return hash_; }
  void require_training_data() const override {}
  std::uint64_t samples_per_epoch() const override { return size_; }
  void sample(std::uint64_t position, const SequenceView& sequence) const override;
  std::int64_t rows(std::uint64_t) const override { return settings_.sequence; }
  std::uint64_t windows() const override { return size_; }
  void validation_window(std::uint64_t window, const SequenceView& sequence) const override;
  std::int64_t validation_rows(std::uint64_t) const override { return settings_.sequence; }

 private:
  void read(const SamplePosition& position, const SequenceView& sequence) const;
  std::int64_t ask(const SamplePosition& position, const SequenceView& sequence) const;
  void check(const SamplePosition& position, const SequenceView& sequence, std::int64_t rows) const;
  void read_custom(const SamplePosition& position, const SequenceView& sequence) const;

  const std::shared_ptr<const SampleSource> source_;
  const DatasetSettings settings_;
  const std::uint64_t size_, hash_;
};

}  // namespace l2l::runtime
