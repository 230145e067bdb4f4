// The gradient of a table of positions: the sum of dy over sequences (column_sums.cuh).
#pragma once

#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/table_gradient.cuh"

namespace l2l::device::cuda {

inline constexpr int kPlaceThreads = 256;

// places[i] = the place of row first + i in its sequence. Moves 4 bytes per row.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    rows_in_sequences(std::int64_t first, std::int64_t rows, std::int64_t sequence, std::int32_t* places) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < rows) places[i] = static_cast<std::int32_t>((first + i) % sequence);
}

// Of an op whose input `dy` is [rows, hidden], and whose input behind it is the position of each row of all devices,
// where rows have positions of their own. The table is the last output.
template <typename T>
class PositionsGradient {
 public:
  PositionsGradient(const OpView& op, std::size_t dy)
      : dy_(dy),
        rows_(op.input(dy).shape[0]),
        first_row_(op.attributes.shard.index * rows_),
        sequence_(op.attributes.sequence),
        table_(sequence_ * op.input(dy).shape[1]),
        has_places_(op.inputs.size() > dy + 1),
        whole_sequences_(op.attributes.shard.count == 1),
        places_(rows_, op.input(dy).shape[1], {op.output(op.outputs.size() - 1).shape[0]}),
        sequences_(std::max<std::int64_t>(1, op.input(dy).shape.elements() / table_), table_) {}

  Bytes workspace() const {
    if (has_places_) return places_.workspace();
    return whole_sequences_ ? sequences_.workspace() : own_places_bytes() + places_.workspace();
  }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters, cudaStream_t stream) const {
    const T* const dy = as<T>(operands[dy_]);
    float* const positions = as<float>(operands.back());
    if (has_places_) {
      const std::int32_t* const places = as<std::int32_t>(operands[dy_ + 1]) + first_row_;
      return places_.enqueue(places, dy, positions, parameters, workspace, stream);
    }
    if (!whole_sequences_) {
      auto* const places = reinterpret_cast<std::int32_t*>(workspace);
      launch("rows_in_sequences", rows_in_sequences<kPlaceThreads>, {ceil_div(rows_, kPlaceThreads), kPlaceThreads},
             stream, first_row_, rows_, sequence_, places);
      return places_.enqueue(places, dy, positions, parameters, workspace + own_places_bytes(), stream);
    }
    // A row is a sequence: all of the table.
    sequences_.enqueue("positions_backward", MatrixSource<T>{{}, dy, table_}, workspace, positions, stream);
  }

 private:
  Bytes own_places_bytes() const { return align_up(static_cast<Bytes>(rows_) * sizeof(std::int32_t), 64); }

  std::size_t dy_;
  std::int64_t rows_, first_row_;  // the latter of those of all devices
  std::int64_t sequence_;
  std::int64_t table_;  // elements
  bool has_places_;
  bool whole_sequences_;  // rows begin and end with one
  TableGradientSum<T, false> places_;
  ColumnSums<T> sequences_;
};

}  // namespace l2l::device::cuda
