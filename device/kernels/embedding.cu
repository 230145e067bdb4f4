#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// A token outside the vocabulary is no address: its row becomes NaN, which the loss shows. Moves 2 elements of T per
// element; the positions stay in the L2 cache.
template <typename T>
struct EmbeddingBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const std::int32_t* tokens = nullptr;
  const T *table = nullptr, *positions = nullptr;
  T* y = nullptr;
  std::int64_t vocabulary, sequence;

  EmbeddingBody(const OpView& op)
      : ElementwiseBody(op), vocabulary(op.input(1).shape[0]), sequence(op.attributes.sequence) {
    columns = op.output(0).shape[1];
  }
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, tokens, table, positions, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, columns);
    const std::int64_t token = tokens[place.row];
    Floats<Count> sum;
    if (token >= 0 && token < vocabulary) {
      sum = load_floats<Count>(table + token * columns + place.column);
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] = __int_as_float(0x7FC00000);
    }
    const std::int64_t position = static_cast<std::uint32_t>(place.row) % static_cast<std::uint32_t>(sequence);
    const Floats<Count> other = load_floats<Count>(positions + position * columns + place.column);
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
