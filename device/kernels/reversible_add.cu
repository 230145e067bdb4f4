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

  ReversibleAddBody(const OpView& op) : ElementwiseBody(op), inverse(op.attributes.inverse) {}

  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, b, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    Elements<Count, Stream> sum = load_elements<Count>(x + first);
    const Floats<Count> branch = load_floats<Count>(b + first);
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] = reversible_sum(sum[i], branch[i], inverse);
    store_elements(y + first, sum);
  }
};

template <typename Stream, typename T>
using ReversibleAdd = ElementwiseKernel<ReversibleAddBody<Stream, T>>;

}  // namespace

const Factory make_reversible_add = make_for_stream<ReversibleAdd, 0, 1>;

}  // namespace l2l::device::cuda
