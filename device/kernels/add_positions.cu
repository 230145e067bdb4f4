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

// The same with a row of positions for each row. A place outside the table is no address: its row becomes NaN.
template <typename T>
struct AddPlacesBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const T *x = nullptr, *positions = nullptr;
  const std::int32_t* places = nullptr;
  T* y = nullptr;
  std::int64_t rows_of_positions;

  AddPlacesBody(const OpView& op) : ElementwiseBody(op), rows_of_positions(op.input(1).shape[0]) {
    columns = op.input(0).shape[1];
  }
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, positions, places, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, columns);
    const std::int64_t row = places[place.row];
    const bool inside = row >= 0 && row < rows_of_positions;
    Floats<Count> sum = load_floats<Count>(x + first);
    const Floats<Count> position = load_floats<Count>(positions + (inside ? row : 0) * columns + place.column);
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] = inside ? sum[i] + position[i] : __int_as_float(0x7FC00000);
    store_floats(y + first, sum);
  }
};

template <typename T>
using AddPositions = ElementwiseKernel<AddPositionsBody<T>>;
template <typename T>
using AddPlaces = ElementwiseKernel<AddPlacesBody<T>>;

}  // namespace

const Factory make_add_positions = [](const Context& context, const OpView& op) -> std::unique_ptr<Kernel> {
  const DType dtype = op.output(0).dtype;
  if (op.inputs.size() > 2) return make_for<AddPlaces>(dtype, context, op);
  return make_for<AddPositions>(dtype, context, op);
};

}  // namespace l2l::device::cuda
