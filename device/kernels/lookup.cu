#include "device/kernels/cuda_factories.h"
#include "device/kernels/indexed_rows.cuh"

namespace l2l::device::cuda {
namespace {

// Of another device's token the row is 0. Moves 2 elements of T per element.
template <typename T>
struct LookupBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const std::int32_t* indices = nullptr;
  const T* table = nullptr;
  T* y = nullptr;
  std::int64_t rows_of_table, first_token, vocabulary;  // of the table; of all devices

  LookupBody(const OpView& op)
      : ElementwiseBody(op),
        rows_of_table(op.input(1).shape[0]),
        first_token(op.attributes.first),
        vocabulary(op.attributes.shard.count > 1 ? op.attributes.vocabulary : rows_of_table) {
    columns = op.output(0).shape[1];
  }
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, indices, table, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, columns);
    const std::int64_t token = indices[place.row], index = token - first_token;
    const bool elsewhere = token >= 0 && token < vocabulary && (index < 0 || index >= rows_of_table);
    store_floats(y + first,
                 elsewhere ? Floats<Count>{} : row_or_nan<Count>(table, index, rows_of_table, columns, place.column));
  }
};

template <typename T>
using Lookup = ElementwiseKernel<LookupBody<T>>;

}  // namespace

const Factory make_lookup = make_for_output<Lookup>;

}  // namespace l2l::device::cuda
