#include "device/kernels/cuda_factories.h"
#include "device/kernels/streams.cuh"

namespace l2l::device::cuda {
namespace {

// Moves two elements of Stream in and one of T out per element.
template <typename Stream, typename T>
struct MergeStreamsBody : ElementwiseBody {
  using Element = T;
  using ElementwiseBody::ElementwiseBody;
  const Stream *a = nullptr, *b = nullptr;
  T* y = nullptr;

  void bind(std::span<std::byte* const> operands, const LaunchParameters*) {
    a = kernels::as<Stream>(operands[0]);
    b = kernels::as<Stream>(operands[1]);
    y = kernels::as<T>(operands[2]);
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Elements<Count, Stream> one = load_elements<Count>(a + first), other = load_elements<Count>(b + first);
    Floats<Count> sum;
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] = __fadd_rn(widen(one[i]), widen(other[i]));
    store_floats(y + first, sum);
  }
};

}  // namespace

std::unique_ptr<Kernel> make_merge_streams(const Context& context, const compiler::Graph& graph,
                                           const compiler::Op& op) {
  return make_for_stream<MergeStreamsBody>(context, graph, op, kernels::input(graph, op, 0).dtype,
                                           kernels::output(graph, op, 0).dtype);
}

}  // namespace l2l::device::cuda
