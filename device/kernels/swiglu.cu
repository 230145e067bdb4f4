#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/gate.cuh"

namespace l2l::device::cuda {
namespace {

// Moves 3 elements of T per element of y: gate and up in, y out.
template <typename T>
struct SwigluBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const T* x = nullptr;  // rows are [gate | up]
  T* y = nullptr;
  Gate activation;

  SwigluBody(const compiler::Graph& graph, const compiler::Op& op)
      : ElementwiseBody(graph, op), activation(gate_of(op.attributes)) {
    columns = kernels::output(graph, op, 0).shape[1];
  }
  void bind(std::span<std::byte* const> operands, const LaunchParameters*) {
    x = kernels::as<T>(operands[0]);
    y = kernels::as<T>(operands[1]);
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, columns);
    const T* const gate = x + 2 * place.row * columns + place.column;
    Floats<Count> values = load_floats<Count>(gate);
    const Floats<Count> up = load_floats<Count>(gate + columns);
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      values[i] = gate_value(activation, values[i]) * up[i];
    }
    store_floats(y + first, values);
  }
};

template <typename T>
using Swiglu = ElementwiseKernel<SwigluBody<T>>;

}  // namespace

std::unique_ptr<Kernel> make_swiglu(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<Swiglu, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
