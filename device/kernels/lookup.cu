#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// An index outside the table makes its row NaN, which the loss shows. Moves 2 elements of T per element.
template <typename T>
struct LookupBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const std::int32_t* indices = nullptr;
  const T* table = nullptr;
  T* y = nullptr;
  std::int64_t rows_of_table;

  LookupBody(const OpView& op) : ElementwiseBody(op), rows_of_table(op.input(1).shape[0]) {
    columns = op.output(0).shape[1];
  }
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, indices, table, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, columns);
    const std::int64_t index = indices[place.row];
    Floats<Count> values;
    if (index >= 0 && index < rows_of_table) {
      values = load_floats<Count>(table + index * columns + place.column);
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) values[i] = __int_as_float(0x7FC00000);
    }
    store_floats(y + first, values);
  }
};

template <typename T>
using Lookup = ElementwiseKernel<LookupBody<T>>;

}  // namespace

const Factory make_lookup = make_for_output<Lookup>;

}  // namespace l2l::device::cuda
