#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/gate.cuh"

namespace l2l::device::cuda {
namespace {

// dgate = dy up times the activation's derivative, dup = dy times the activation (gate.h). Moves 5 elements of T per
// element of dy: dy, gate and up in, two out.
template <typename T>
struct SwigluBackwardBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const T *dy = nullptr, *x = nullptr;  // rows of x and dx are [gate | up]
  T* dx = nullptr;
  Gate activation;

  SwigluBackwardBody(const compiler::Graph& graph, const compiler::Op& op)
      : ElementwiseBody(graph, op), activation(gate_of(op.attributes)) {
    elements = kernels::input(graph, op, 0).shape.elements();
    columns = kernels::input(graph, op, 0).shape[1];
  }
  void bind(std::span<std::byte* const> operands, const LaunchParameters*) {
    dy = kernels::as<T>(operands[0]);
    x = kernels::as<T>(operands[1]);
    dx = kernels::as<T>(operands[2]);
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, columns);
    const std::int64_t gate = 2 * place.row * columns + place.column;
    Floats<Count> gates = load_floats<Count>(x + gate), ups = load_floats<Count>(x + gate + columns);
    const Floats<Count> gradient = load_floats<Count>(dy + first);
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const float g = gates[i];
      const GateDerivative derivative = gate_derivative(activation, g);
      gates[i] = gradient[i] * ups[i] * derivative.slope;
      ups[i] = gradient[i] * g * derivative.share;
    }
    store_floats(dx + gate, gates);
    store_floats(dx + gate + columns, ups);
  }
};

template <typename T>
using SwigluBackward = ElementwiseKernel<SwigluBackwardBody<T>>;

}  // namespace

std::unique_ptr<Kernel> make_swiglu_backward(const Context& context, const compiler::Graph& graph,
                                             const compiler::Op& op) {
  return make_for<SwigluBackward, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
