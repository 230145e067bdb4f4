#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 3 elements of T per element: two in, one out.
template <typename T>
struct AddBody : ElementwiseBody {
  using Element = T;
  using ElementwiseBody::ElementwiseBody;
  const T *a = nullptr, *b = nullptr;
  T* y = nullptr;

  void bind(std::span<std::byte* const> operands, const LaunchParameters*) {
    a = kernels::as<T>(operands[0]);
    b = kernels::as<T>(operands[1]);
    y = kernels::as<T>(operands[2]);
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    Floats<Count> sum = load_floats<Count>(a + first);
    const Floats<Count> other = load_floats<Count>(b + first);
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] += other[i];
    store_floats(y + first, sum);
  }
};

template <typename T>
using Add = ElementwiseKernel<AddBody<T>>;

}  // namespace

std::unique_ptr<Kernel> make_add(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<Add, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
