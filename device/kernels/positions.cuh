// The gradient of a table of positions: the sum of dy over sequences, in ascending order.
#pragma once

#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/table_gradient.cuh"

namespace l2l::device::cuda {

// An element of the table is element % table of dy. Moves one element of T per element of dy.
template <typename T>
struct PositionsBody : Unprepared {
  const T* dy;
  std::int64_t elements, table;  // of dy, of the table
  float* positions;

  template <int Count>
  __device__ void at(std::int64_t first) const {
    Floats<Count> sum = load_floats<Count>(positions + first);
#pragma unroll 4
    for (std::int64_t element = first; element < elements; element += table) {
      const Floats<Count> gradient = load_floats<Count>(dy + element);
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] += gradient[i];
    }
    store_floats(positions + first, sum);
  }
};

// Of an op whose input `dy` is [rows, hidden], and whose input behind it is the position of each row, where rows have
// positions of their own. The table is the last output.
template <typename T>
class PositionsGradient {
 public:
  PositionsGradient(const Context& context, const OpView& op, std::size_t dy)
      : context_(context),
        dy_(dy),
        elements_(op.input(dy).shape.elements()),
        table_(op.attributes.sequence * op.input(dy).shape[1]),
        has_places_(op.inputs.size() > dy + 1),
        places_(op.input(dy).shape[0], op.input(dy).shape[1], op.output(op.outputs.size() - 1).shape[0]) {}

  Bytes workspace() const { return has_places_ ? places_.workspace() : 0; }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters, cudaStream_t stream) const {
    const T* const dy = as<T>(operands[dy_]);
    float* const positions = as<float>(operands.back());
    if (has_places_) {
      return places_.enqueue(as<std::int32_t>(operands[dy_ + 1]), dy, positions, parameters, workspace, stream);
    }
    // positions[i] += dy[i + k * table] over k, for i < table: the elements of a sequence's rows.
    const PositionsBody<T> body{{}, dy, elements_, table_, positions};
    launch_elementwise_rows<T>("positions_backward", context_, table_, table_, body, stream);
  }

 private:
  Context context_;
  std::size_t dy_;
  std::int64_t elements_, table_;
  bool has_places_;
  TableGradientSum<T, false> places_;
};

}  // namespace l2l::device::cuda
