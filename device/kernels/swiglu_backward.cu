#include "device/kernels/activations.cuh"
#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// dgate = dy up times the activation's derivative, dup = dy times the activation (activations.h). Moves 5 elements of T
// per element of dy: dy, gate and up in, two out.
template <typename T>
struct SwigluBackwardBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const T *dy = nullptr, *x = nullptr;  // rows of x and dx are [gate | up]
  T* dx = nullptr;
  Gate activation;

  SwigluBackwardBody(const OpView& op) : ElementwiseBody(op), activation(gate_of(op.attributes)) {
    elements = op.input(0).shape.elements();
    columns = op.input(0).shape[1];
  }
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, dy, x, dx); }

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

const Factory make_swiglu_backward = make_for_input<SwigluBackward>;

}  // namespace l2l::device::cuda
