#include "device/kernels/gelu.cuh"

#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 2 elements of T per element.
template <typename T, bool kExact>
struct GeluBody : ElementwiseBody {
  using Element = T;
  using ElementwiseBody::ElementwiseBody;
  const T* x = nullptr;
  T* y = nullptr;

  void bind(std::span<std::byte* const> operands, const LaunchParameters*) {
    x = kernels::as<T>(operands[0]);
    y = kernels::as<T>(operands[1]);
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    Floats<Count> values = load_floats<Count>(x + first);
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] = gelu<kExact>(values[i]);
    store_floats(y + first, values);
  }
};

template <typename T>
using ExactGelu = ElementwiseKernel<GeluBody<T, true>>;
template <typename T>
using TanhGelu = ElementwiseKernel<GeluBody<T, false>>;

}  // namespace

std::unique_ptr<Kernel> make_gelu(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  const DType dtype = kernels::output(graph, op, 0).dtype;
  return op.attributes.exact ? make_for<ExactGelu, Kernel>(dtype, context, graph, op)
                             : make_for<TanhGelu, Kernel>(dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
