#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 2 elements of T per element of z, and y once.
template <typename T>
struct AddColumnsBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const T *x = nullptr, *y = nullptr;
  T* z = nullptr;
  std::int64_t first_column, count;
  float factor;

  AddColumnsBody(const OpView& op)
      : ElementwiseBody(op),
        first_column(op.attributes.first),
        count(op.input(1).shape[1]),
        factor(op.attributes.factor) {
    columns = op.output(0).shape[1];
  }
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, y, z); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, columns);
    Floats<Count> values = load_floats<Count>(x + first);
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const std::int64_t column = place.column + i - first_column;
      if (column < 0 || column >= count) continue;
      values[i] = fmaf(factor, widen(y[place.row * count + column]), values[i]);
    }
    store_floats(z + first, values);
  }
};

template <typename T>
using AddColumns = ElementwiseKernel<AddColumnsBody<T>>;

}  // namespace

const Factory make_add_columns = make_for_output<AddColumns>;

}  // namespace l2l::device::cuda
