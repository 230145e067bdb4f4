#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// x and y may be the same memory. Moves 2 elements of T per element; the table stays in the L2 cache.
template <typename T>
struct AddPositionsBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const T *x = nullptr, *positions = nullptr;
  T* y = nullptr;

  // The rows that groups stay within are whole sequences, as long as the table of positions.
  AddPositionsBody(const OpView& op) : ElementwiseBody(op) { columns = op.attributes.sequence * op.input(0).shape[1]; }
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, positions, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    Floats<Count> sum = load_floats<Count>(x + first);
    const Floats<Count> position = load_floats<Count>(positions + place_of<Count>(first, columns).column);
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] += position[i];
    store_floats(y + first, sum);
  }
};

template <typename T>
using AddPositions = ElementwiseKernel<AddPositionsBody<T>>;

}  // namespace

const Factory make_add_positions = make_for_output<AddPositions>;

}  // namespace l2l::device::cuda
