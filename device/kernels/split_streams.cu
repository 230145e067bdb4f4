#include "device/kernels/cuda_factories.h"
#include "device/kernels/streams.cuh"

namespace l2l::device::cuda {
namespace {

// Moves one element of T in and two of Stream out per element, or the same one twice.
template <typename Stream, typename T>
struct SplitStreamsBody : ElementwiseBody {
  using Element = T;
  using ElementwiseBody::ElementwiseBody;
  const T* x = nullptr;
  Stream *a = nullptr, *b = nullptr;

  void bind(Operands operands, const LaunchParameters*) {
    point_to(operands, x, a);
    b = operands.size() > 2 ? reinterpret_cast<Stream*>(operands[2]) : a;
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Floats<Count> values = load_floats<Count>(x + first);
    store_floats(a + first, values);
    store_floats(b + first, values);
  }
};

template <typename Stream, typename T>
using SplitStreams = ElementwiseKernel<SplitStreamsBody<Stream, T>>;
// A gradient, of the compute type.
template <typename T>
using SplitGradient = ElementwiseKernel<SplitStreamsBody<T, T>>;

}  // namespace

const Factory make_split_streams = [](const Context& context, const OpView& op) {
  const bool gradient = op.output(0).dtype == op.input(0).dtype;
  return (gradient ? make_for_input<SplitGradient> : make_for_stream<SplitStreams, 1, 0>)(context, op);
};

}  // namespace l2l::device::cuda
