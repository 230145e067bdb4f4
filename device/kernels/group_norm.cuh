// What group norm and its gradient share: which elements are normed together.
#pragma once

#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/reduce.cuh"

namespace l2l::device::cuda {

inline constexpr int kGroupNormThreads = 512;

// Of x [R, channels]: `samples` of sample_rows rows each, their channels in `groups` of group_channels each. Statistics
// are [samples, groups].
struct NormGroups {
  std::int64_t samples, sample_rows, channels, groups, group_channels;

  explicit NormGroups(const compiler::Attributes& attributes)
      : samples(attributes.dims[0]),
        sample_rows(attributes.dims[1] * attributes.dims[2]),
        channels(attributes.dims[3]),
        groups(attributes.groups),
        group_channels(channels / groups) {}

  // Each channel has statistics of its own, over all rows, as in batch norm: sums over columns are the fast way to
  // them.
  bool by_column() const { return samples == 1 && group_channels == 1; }
  std::int64_t statistics() const { return samples * groups; }
  std::int64_t elements() const { return samples * sample_rows * channels; }
  __device__ float group_size() const { return static_cast<float>(sample_rows * group_channels); }

  // Calls visit(index in x, channel) for Count neighbours at a time of one group, of which each thread of a block has
  // some.
  template <int Count, typename Visit>
  __device__ void each(std::int64_t statistic, const Visit& visit) const {
    const std::int64_t sample = statistic / groups, first_channel = (statistic - sample * groups) * group_channels;
    for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * Count; i < sample_rows * group_channels;
         i += kGroupNormThreads * Count) {
      const Place place = place_of<Count>(i, group_channels);
      const std::int64_t channel = first_channel + place.column;
      visit((sample * sample_rows + place.row) * channels + channel, channel);
    }
  }

  // The statistics that belong to Count neighbours of a row.
  template <int Count>
  __device__ Elements<Count, std::int64_t> statistics_at(std::int64_t row, std::int64_t channel) const {
    const std::uint32_t sample = static_cast<std::uint32_t>(row) / static_cast<std::uint32_t>(sample_rows);
    const std::uint32_t group = static_cast<std::uint32_t>(channel) / static_cast<std::uint32_t>(group_channels);
    std::int64_t statistic = sample * groups + group, left = (group + 1) * group_channels - channel;
    Elements<Count, std::int64_t> result;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      if (left == 0) {
        ++statistic;
        left = group_channels;
      }
      --left;
      result[i] = statistic;
    }
    return result;
  }
};

// Workspace of batch norm.
struct ChannelTotals {
  float* totals;    // [2, channels]
  std::byte* sums;  // of ColumnSums
  Bytes bytes;

  template <typename T>
  ChannelTotals(const NormGroups& groups, const ColumnSums<T>& column_sums, std::byte* workspace) {
    kernels::WorkspaceCutter cutter(workspace);
    totals = cutter.take<float>(2 * groups.channels);
    sums = cutter.take<std::byte>(static_cast<std::int64_t>(column_sums.workspace()));
    bytes = cutter.used();
  }
};

}  // namespace l2l::device::cuda
