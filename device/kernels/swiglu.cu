#include "device/kernels/activations.cuh"
#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

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

  SwigluBody(const OpView& op) : ElementwiseBody(op), activation(gate_of(op.attributes)) {
    columns = op.output(0).shape[1];
  }
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, y); }

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

const Factory make_swiglu = make_for_output<Swiglu>;

}  // namespace l2l::device::cuda
