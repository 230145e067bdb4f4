#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 2 elements of T per element of y.
template <typename T>
struct ColumnsBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const T* x = nullptr;
  T* y = nullptr;
  std::int64_t width, first_column;
  bool packed;  // groups of y are groups of x
  float factor;

  ColumnsBody(const OpView& op)
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
    const T* const from = x + place.row * width + first_column + place.column;
    Floats<Count> values;
    if (packed) {
      values = load_floats<Count>(from);
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) values[i] = widen(from[i]);
    }
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] *= factor;
    store_floats(y + first, values);
  }
};

template <typename T>
using Columns = ElementwiseKernel<ColumnsBody<T>>;

}  // namespace

const Factory make_columns = make_for_output<Columns>;

}  // namespace l2l::device::cuda
