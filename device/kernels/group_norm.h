// What group norm and its gradient share on the host.
#pragma once

#include <algorithm>

#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/kernel.h"

namespace l2l::device::kernels {

// Whole groups of one sample, of at most kMost channels in all, or a single larger group, which is taken in chunks of
// kMost. So a line of kMost numbers that depend on the group alone holds for each chunk.
class GroupStrips {
 public:
  static constexpr std::int64_t kMost = 64;  // channels

  struct Strip {
    std::int64_t sample, first_group, groups;
  };

  explicit GroupStrips(const compiler::Attributes& attributes)
      : samples_(attributes.dims[0]),
        rows_(attributes.dims[1] * attributes.dims[2]),
        channels_(attributes.dims[3]),
        size_(channels_ / attributes.groups),
        strips_{attributes.groups, std::max<std::int64_t>(1, kMost / size_)} {}

  std::int64_t samples() const { return samples_; }
  std::int64_t channels() const { return channels_; }
  std::int64_t groups() const { return strips_.total; }
  double group_elements() const { return static_cast<double>(rows_ * size_); }

  // Calls take(strip) for all strips, in parallel.
  template <typename Take>
  void for_each(Workers& workers, const Take& take) const {
    const std::int64_t strips = strips_.count();
    const Partition blocks = row_blocks(samples_ * strips, rows_ * size_ * strips_.size);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      for (std::int64_t i = blocks.begin(block); i < blocks.end(block); ++i) {
        const std::int64_t first = strips_.begin(i % strips);
        take(Strip{i / strips, first, strips_.end(i % strips) - first});
      }
    });
  }

  // Calls take(first, count) for the channels [first, first + count) of each chunk.
  template <typename Take>
  void for_chunks(const Strip& strip, const Take& take) const {
    const std::int64_t begin = strip.first_group * size_, end = begin + strip.groups * size_;
    for (std::int64_t first = begin; first < end; first += kMost) take(first, std::min(kMost, end - first));
  }

  // Calls take(place) with the place in x of channel `first` of each row of the sample.
  template <typename Take>
  void for_places(const Strip& strip, std::int64_t first, const Take& take) const {
    const std::int64_t begin = strip.sample * rows_;
    for (std::int64_t row = begin; row < begin + rows_; ++row) take(row * channels_ + first);
  }

  // totals[i] = the sum of value(place in x, i) over the rows, for channel i of a chunk. Partial sums of 64 rows are
  // fp32.
  template <typename Value>
  void sum_rows(const Strip& strip, std::int64_t first, std::int64_t count, double* totals, const Value& value) const {
    std::fill_n(totals, count, 0.0);
    for (std::int64_t begin = 0; begin < rows_; begin += kRows) {
      float partial[kMost] = {};
      for (std::int64_t row = begin; row < std::min(rows_, begin + kRows); ++row) {
        const std::int64_t place = (strip.sample * rows_ + row) * channels_ + first;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) partial[i] += value(place + i, i);
      }
      for (std::int64_t i = 0; i < count; ++i) totals[i] += static_cast<double>(partial[i]);
    }
  }

  // The group in its strip of channel i of a chunk.
  std::int64_t group_of(std::int64_t i) const { return i / size_; }

  // Puts the number of each group of the strip into its channels of a line of kMost.
  template <typename Number>
  void spread(const Strip& strip, const Number* of_groups, float* line) const {
    for (std::int64_t i = 0; i < kMost; ++i) {
      line[i] = static_cast<float>(of_groups[std::min(group_of(i), strip.groups - 1)]);
    }
  }

 private:
  static constexpr std::int64_t kRows = 64;

  std::int64_t samples_, rows_, channels_, size_;  // channels of a group
  Partition strips_;                               // of groups
};

}  // namespace l2l::device::kernels
