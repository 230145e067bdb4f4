#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/common/rows.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// A token outside the vocabulary is no address: its row becomes NaN, which the loss shows. Moves 2 elements of T per
// element; the positions stay in the L2 cache.
template <typename T>
struct EmbeddingBody : Unprepared {
  const std::int32_t* tokens;
  const T *table, *positions;
  T* y;
  std::int64_t hidden, vocabulary, sequence;

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, hidden);
    const std::int64_t token = tokens[place.row];
    Floats<Count> sum;
    if (token >= 0 && token < vocabulary) {
      sum = load_floats<Count>(table + token * hidden + place.column);
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] = __int_as_float(0x7FC00000);
    }
    const std::int64_t position = static_cast<std::uint32_t>(place.row) % static_cast<std::uint32_t>(sequence);
    const Floats<Count> other = load_floats<Count>(positions + position * hidden + place.column);
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] += other[i];
    store_floats(y + first, sum);
  }
};

template <typename T>
class Embedding final : public Kernel {
 public:
  Embedding(const Context& context, const compiler::Graph& graph, const compiler::Op& op)
      : context_(context),
        elements_(kernels::output(graph, op, 0).shape.elements()),
        hidden_(kernels::output(graph, op, 0).shape[1]),
        vocabulary_(kernels::input(graph, op, 1).shape[0]),
        sequence_(op.attributes.sequence) {
    require_groups<T>(elements_, hidden_);
  }

  void enqueue(std::span<std::byte* const> operands, std::byte*, const LaunchParameters*,
               cudaStream_t stream) const override {
    EmbeddingBody<T> body;
    body.tokens = kernels::as<std::int32_t>(operands[0]);
    body.table = kernels::as<T>(operands[1]);
    body.positions = kernels::as<T>(operands[2]);
    body.y = kernels::as<T>(operands[3]);
    body.hidden = hidden_;
    body.vocabulary = vocabulary_;
    body.sequence = sequence_;
    if (rows_are_packed<T>(hidden_)) {
      launch_elementwise<kPack<T>>("embedding", context_, elements_, body, stream);
    } else {
      launch_elementwise<1>("embedding", context_, elements_, body, stream);
    }
  }

 private:
  Context context_;
  std::int64_t elements_, hidden_, vocabulary_, sequence_;
};

}  // namespace

std::unique_ptr<Kernel> make_embedding(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<Embedding, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
