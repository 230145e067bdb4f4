#include "device/kernels/cuda_factories.h"
#include "device/kernels/streams.cuh"

namespace l2l::device::cuda {
namespace {

// Moves two elements of Stream and one of T per element.
template <typename Stream, typename T>
struct ReversibleAddBody : ElementwiseBody {
  using Element = T;
  const Stream* x = nullptr;
  const T* b = nullptr;
  Stream* y = nullptr;
  bool inverse;

  ReversibleAddBody(const compiler::Graph& graph, const compiler::Op& op)
      : ElementwiseBody(graph, op), inverse(op.attributes.inverse) {}

  void bind(std::span<std::byte* const> operands, const LaunchParameters*) {
    x = kernels::as<Stream>(operands[0]);
    b = kernels::as<T>(operands[1]);
    y = kernels::as<Stream>(operands[2]);
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    Elements<Count, Stream> sum = load_elements<Count>(x + first);
    const Floats<Count> branch = load_floats<Count>(b + first);
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] = reversible_sum(sum[i], branch[i], inverse);
    store_elements(y + first, sum);
  }
};

}  // namespace

std::unique_ptr<Kernel> make_reversible_add(const Context& context, const compiler::Graph& graph,
                                            const compiler::Op& op) {
  return make_for_stream<ReversibleAddBody>(context, graph, op, kernels::input(graph, op, 0).dtype,
                                            kernels::input(graph, op, 1).dtype);
}

}  // namespace l2l::device::cuda
