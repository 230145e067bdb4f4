#include "device/kernels/cuda_factories.h"
#include "device/kernels/indexed_rows.cuh"

namespace l2l::device::cuda {
namespace {

// Moves 2 elements of T per element.
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
    store_floats(y + first, row_or_nan<Count>(table, index, rows_of_table, columns, place.column));
  }
};

template <typename T>
using Lookup = ElementwiseKernel<LookupBody<T>>;

}  // namespace

const Factory make_lookup = make_for_output<Lookup>;

}  // namespace l2l::device::cuda
