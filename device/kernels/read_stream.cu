#include "device/kernels/cuda_factories.h"
#include "device/kernels/streams.cuh"

namespace l2l::device::cuda {
namespace {

// Moves one element of Stream in and one of T out per element.
template <typename Stream, typename T>
struct ReadStreamBody : ElementwiseBody {
  using Element = T;
  using ElementwiseBody::ElementwiseBody;
  const Stream* x = nullptr;
  T* y = nullptr;

  void bind(std::span<std::byte* const> operands, const LaunchParameters*) {
    x = kernels::as<Stream>(operands[0]);
    y = kernels::as<T>(operands[1]);
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Elements<Count, Stream> elements = load_elements<Count>(x + first);
    Floats<Count> values;
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] = widen(elements[i]);
    store_floats(y + first, values);
  }
};

}  // namespace

std::unique_ptr<Kernel> make_read_stream(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_stream<ReadStreamBody>(context, graph, op, kernels::input(graph, op, 0).dtype,
                                         kernels::output(graph, op, 0).dtype);
}

}  // namespace l2l::device::cuda
