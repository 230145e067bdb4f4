#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/common/rows.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// With s = sigmoid(gate): dgate = dy up (s + gate s (1 - s)), dup = dy gate s; 1 - s = e^-gate s. Moves 5 elements of T
// per element of dy: dy, gate and up in, two out.
template <typename T>
struct SwigluBackwardBody : Unprepared {
  const T *dy, *x;  // rows of x and dx are [gate | up]
  T* dx;
  std::int64_t width;

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, width);
    const std::int64_t gate = 2 * place.row * width + place.column;
    Floats<Count> gates = load_floats<Count>(x + gate), ups = load_floats<Count>(x + gate + width);
    const Floats<Count> gradient = load_floats<Count>(dy + first);
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const float g = gates[i], exponential = expf(fminf(-g, 80.0f)), s = __fdividef(1.0f, 1.0f + exponential);
      gates[i] = gradient[i] * ups[i] * (s + g * s * (exponential * s));
      ups[i] = gradient[i] * g * s;
    }
    store_floats(dx + gate, gates);
    store_floats(dx + gate + width, ups);
  }
};

template <typename T>
class SwigluBackward final : public Kernel {
 public:
  SwigluBackward(const Context& context, const compiler::Graph& graph, const compiler::Op& op)
      : context_(context),
        elements_(kernels::input(graph, op, 0).shape.elements()),
        width_(kernels::input(graph, op, 0).shape[1]) {
    require_groups<T>(elements_, width_);
  }

  void enqueue(std::span<std::byte* const> operands, std::byte*, const LaunchParameters*,
               cudaStream_t stream) const override {
    SwigluBackwardBody<T> body;
    body.dy = kernels::as<T>(operands[0]);
    body.x = kernels::as<T>(operands[1]);
    body.dx = kernels::as<T>(operands[2]);
    body.width = width_;
    if (rows_are_packed<T>(width_)) {
      launch_elementwise<kPack<T>>("swiglu_backward", context_, elements_, body, stream);
    } else {
      launch_elementwise<1>("swiglu_backward", context_, elements_, body, stream);
    }
  }

 private:
  Context context_;
  std::int64_t elements_, width_;
};

}  // namespace

std::unique_ptr<Kernel> make_swiglu_backward(const Context& context, const compiler::Graph& graph,
                                             const compiler::Op& op) {
  return make_for<SwigluBackward, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
