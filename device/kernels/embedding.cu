#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// A token or place outside its table is no address: its row becomes NaN, which the loss shows. Moves 2 elements of T
// per element; the positions stay in the L2 cache.
template <typename T>
struct EmbeddingBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const std::int32_t *tokens = nullptr, *places = nullptr;
  const T *table = nullptr, *positions = nullptr;
  T* y = nullptr;
  std::int64_t vocabulary, sequence, rows_of_positions;

  EmbeddingBody(const OpView& op)
      : ElementwiseBody(op),
        vocabulary(op.input(1).shape[0]),
        sequence(op.attributes.sequence),
        rows_of_positions(op.input(2).shape[0]) {
    columns = op.output(0).shape[1];
  }
  void bind(Operands operands, const LaunchParameters*) {
    tokens = as<std::int32_t>(operands[0]);
    table = as<T>(operands[1]);
    positions = as<T>(operands[2]);
    places = operands.size() > 4 ? as<std::int32_t>(operands[3]) : nullptr;
    y = as<T>(operands.back());
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, columns);
    const std::int64_t token = tokens[place.row];
    Floats<Count> sum;
    const std::int64_t position = places != nullptr
                                      ? static_cast<std::int64_t>(places[place.row])
                                      : static_cast<std::uint32_t>(place.row) % static_cast<std::uint32_t>(sequence);
    const bool inside = token >= 0 && token < vocabulary && position >= 0 && position < rows_of_positions;
    if (inside) {
      sum = load_floats<Count>(table + token * columns + place.column);
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] = __int_as_float(0x7FC00000);
    }
    const Floats<Count> other = load_floats<Count>(positions + (inside ? position : 0) * columns + place.column);
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] += other[i];
    store_floats(y + first, sum);
  }
};

template <typename T>
using Embedding = ElementwiseKernel<EmbeddingBody<T>>;

}  // namespace

const Factory make_embedding = make_for_output<Embedding>;

}  // namespace l2l::device::cuda
