// The gradient of a table of positions: the sum of dy over sequences, in ascending order.
#pragma once

#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/rows.cuh"

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

// positions[i] += dy[i + k * table] over k, for i < table: the elements of a sequence's rows.
template <typename T>
void launch_positions_backward(const Context& context, const T* dy, std::int64_t elements, std::int64_t table,
                               float* positions, cudaStream_t stream) {
  const PositionsBody<T> body{{}, dy, elements, table, positions};
  launch_elementwise_rows<T>("positions_backward", context, table, table, body, stream);
}

}  // namespace l2l::device::cuda
