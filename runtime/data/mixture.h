// Samples of several sources in fixed shares.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/data/samples.h"

namespace l2l::runtime {

// Immutable. Of every kBlock consecutive samples each source has the same number, its share rounded, at least one;
// which of them are its own is drawn once. A source goes through its own epochs. Not for validation.
class Mixture final : public Samples {
 public:
  static constexpr std::uint64_t kBlock = 10'000;

  // `weights`: positive, one for each source. Throws BadInput when there are none, or more than kBlock.
  Mixture(std::vector<std::unique_ptr<Samples>> sources, const std::vector<double>& weights, std::uint64_t seed);

  std::uint64_t tokens() const override;
  std::uint64_t hash() const override { return hash_; }
  void require_training_data() const override;
  // After so many each source has had an epoch.
  std::uint64_t samples_per_epoch() const override;
  void sample(std::uint64_t position, const SequenceView& sequence) const override;
  std::int64_t rows(std::uint64_t position) const override;
  std::uint64_t windows() const override { return 0; }
  void validation_window(std::uint64_t window, const SequenceView& sequence) const override;
  std::int64_t validation_rows(std::uint64_t) const override { return 0; }

  // Which source a sample comes from, and its number there.
  struct Place {
    std::size_t source;
    std::uint64_t position;
  };
  Place place(std::uint64_t position) const;

 private:
  std::vector<std::unique_ptr<Samples>> sources_;
  std::vector<std::uint64_t> of_block_;   // samples of each source in a block
  std::vector<std::uint16_t> source_of_;  // [kBlock]
  std::vector<std::uint16_t> rank_;       // [kBlock]: how many of the same source are before it in the block
  std::uint64_t hash_ = 0;
};

}  // namespace l2l::runtime
