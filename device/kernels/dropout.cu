#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/random.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 2 elements of T per element (3 with a residual) and draws one word.
template <typename T, bool kAdd>
struct DropoutBody : ElementwiseBody {
  using Element = T;
  const T *x = nullptr, *residual = nullptr;
  T* y = nullptr;
  const LaunchParameters* parameters = nullptr;
  std::uint32_t rng_op;
  float probability;
  DropoutMask mask;

  DropoutBody(const compiler::Graph& graph, const compiler::Op& op)
      : ElementwiseBody(graph, op), rng_op(op.attributes.rng_op), probability(op.attributes.probability) {
    require_random_elements(elements);
  }
  void bind(std::span<std::byte* const> operands, const LaunchParameters* launch) {
    x = kernels::as<T>(operands[0]);
    if (kAdd) residual = kernels::as<T>(operands[1]);
    y = kernels::as<T>(operands[kAdd ? 2 : 1]);
    parameters = launch;
  }

  __device__ void prepare() { mask = DropoutMask(parameters, rng_op, probability); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    Floats<Count> result = dropped(mask, first, load_floats<Count>(x + first));
    if constexpr (kAdd) {
      const Floats<Count> other = load_floats<Count>(residual + first);
#pragma unroll
      for (int i = 0; i < Count; ++i) result[i] = rounded<T>(result[i]) + other[i];
    }
    store_floats(y + first, result);
  }
};

template <typename T>
using Dropout = ElementwiseKernel<DropoutBody<T, false>>;
template <typename T>
using DropoutAdd = ElementwiseKernel<DropoutBody<T, true>>;

}  // namespace

std::unique_ptr<Kernel> make_dropout(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<Dropout, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

std::unique_ptr<Kernel> make_dropout_add(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<DropoutAdd, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
