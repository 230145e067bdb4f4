#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/gelu.cuh"

namespace l2l::device::cuda {
namespace {

// Moves 3 elements of T per element: dy and x in, dx out.
template <typename T, bool kExact>
struct GeluBackwardBody : ElementwiseBody {
  using Element = T;
  using ElementwiseBody::ElementwiseBody;
  const T *dy = nullptr, *x = nullptr;
  T* dx = nullptr;

  void bind(std::span<std::byte* const> operands, const LaunchParameters*) {
    dy = kernels::as<T>(operands[0]);
    x = kernels::as<T>(operands[1]);
    dx = kernels::as<T>(operands[2]);
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    Floats<Count> gradient = load_floats<Count>(dy + first);
    const Floats<Count> values = load_floats<Count>(x + first);
#pragma unroll
    for (int i = 0; i < Count; ++i) gradient[i] = __fmul_rn(gradient[i], gelu_derivative<kExact>(values[i]));
    store_floats(dx + first, gradient);
  }
};

template <typename T>
using ExactGeluBackward = ElementwiseKernel<GeluBackwardBody<T, true>>;
template <typename T>
using TanhGeluBackward = ElementwiseKernel<GeluBackwardBody<T, false>>;

}  // namespace

std::unique_ptr<Kernel> make_gelu_backward(const Context& context, const compiler::Graph& graph,
                                           const compiler::Op& op) {
  const DType dtype = kernels::output(graph, op, 0).dtype;
  return op.attributes.exact ? make_for<ExactGeluBackward, Kernel>(dtype, context, graph, op)
                             : make_for<TanhGeluBackward, Kernel>(dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
