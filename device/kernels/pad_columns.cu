#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Reads x once and writes an element of T per element of y.
template <typename T>
struct PadColumnsBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const T* x = nullptr;
  T* y = nullptr;
  std::int64_t width, first_column;
  bool packed;  // groups of y are groups of x, or lie outside of it
  float factor;

  PadColumnsBody(const OpView& op)
      : ElementwiseBody(op),
        width(op.input(0).shape[1]),
        first_column(op.attributes.first),
        packed(rows_are_packed<T>(width) && rows_are_packed<T>(first_column)),
        factor(op.attributes.factor) {
    columns = op.output(0).shape[1];
  }
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, columns);
    const T* const row = x + place.row * width;
    const std::int64_t column = place.column - first_column;
    Floats<Count> values{};
    if (packed) {
      if (column >= 0 && column < width) values = load_floats<Count>(row + column);
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        if (column + i >= 0 && column + i < width) values[i] = widen(row[column + i]);
      }
    }
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] *= factor;
    store_floats(y + first, values);
  }
};

template <typename T>
using PadColumns = ElementwiseKernel<PadColumnsBody<T>>;

}  // namespace

const Factory make_pad_columns = make_for_output<PadColumns>;

}  // namespace l2l::device::cuda
