// The gradient of a table of positions: the sum of dy over sequences (column_sums.cuh).
#pragma once

#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/table_gradient.cuh"

namespace l2l::device::cuda {

// Of an op whose input `dy` is [rows, hidden], and whose input behind it is the position of each row, where rows have
// positions of their own. The table is the last output.
template <typename T>
class PositionsGradient {
 public:
  PositionsGradient(const OpView& op, std::size_t dy)
      : dy_(dy),
        table_(op.attributes.sequence * op.input(dy).shape[1]),
        has_places_(op.inputs.size() > dy + 1),
        places_(op.input(dy).shape[0], op.input(dy).shape[1], op.output(op.outputs.size() - 1).shape[0]),
        sequences_(std::max<std::int64_t>(1, op.input(dy).shape.elements() / table_), table_) {}

  Bytes workspace() const { return has_places_ ? places_.workspace() : sequences_.workspace(); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters, cudaStream_t stream) const {
    const T* const dy = as<T>(operands[dy_]);
    float* const positions = as<float>(operands.back());
    if (has_places_) {
      return places_.enqueue(as<std::int32_t>(operands[dy_ + 1]), dy, positions, parameters, workspace, stream);
    }
    // A row is a sequence: all of the table.
    sequences_.enqueue("positions_backward", MatrixSource<T>{{}, dy, table_}, workspace, positions, stream);
  }

 private:
  std::size_t dy_;
  std::int64_t table_;  // elements
  bool has_places_;
  TableGradientSum<T, false> places_;
  ColumnSums<T> sequences_;
};

}  // namespace l2l::device::cuda
