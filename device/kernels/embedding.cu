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

  EmbeddingBody(const compiler::Graph& graph, const compiler::Op& op)
      : ElementwiseBody(graph, op),
        vocabulary(kernels::input(graph, op, 1).shape[0]),
        sequence(op.attributes.sequence) {
    columns = kernels::output(graph, op, 0).shape[1];
  }
  void bind(std::span<std::byte* const> operands, const LaunchParameters*) {
    tokens = kernels::as<std::int32_t>(operands[0]);
    table = kernels::as<T>(operands[1]);
    positions = kernels::as<T>(operands[2]);
    y = kernels::as<T>(operands[3]);
  }

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

std::unique_ptr<Kernel> make_embedding(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<Embedding, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
