#include "device/kernels/cuda_factories.h"
#include "device/kernels/streams.cuh"

namespace l2l::device::cuda {
namespace {

// Moves one element of T in and two of Stream out per element.
template <typename Stream, typename T>
struct SplitStreamsBody : ElementwiseBody {
  using Element = T;
  using ElementwiseBody::ElementwiseBody;
  const T* x = nullptr;
  Stream *a = nullptr, *b = nullptr;

  void bind(std::span<std::byte* const> operands, const LaunchParameters*) {
    x = kernels::as<T>(operands[0]);
    a = kernels::as<Stream>(operands[1]);
    b = kernels::as<Stream>(operands[2]);
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Floats<Count> values = load_floats<Count>(x + first);
    Elements<Count, Stream> both;
#pragma unroll
    for (int i = 0; i < Count; ++i) both[i] = narrow_stream<Stream>(values[i]);
    store_elements(a + first, both);
    store_elements(b + first, both);
  }
};

// A gradient, of the compute type.
template <typename T>
using SplitGradient = ElementwiseKernel<SplitStreamsBody<T, T>>;

}  // namespace

std::unique_ptr<Kernel> make_split_streams(const Context& context, const compiler::Graph& graph,
                                           const compiler::Op& op) {
  const DType stream = kernels::output(graph, op, 0).dtype, compute = kernels::input(graph, op, 0).dtype;
  if (stream == compute) return make_for<SplitGradient, Kernel>(compute, context, graph, op);
  return make_for_stream<SplitStreamsBody>(context, graph, op, stream, compute);
}

}  // namespace l2l::device::cuda
