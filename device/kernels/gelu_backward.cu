#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/gelu.cuh"

namespace l2l::device::cuda {
namespace {

// Moves 3 elements of T per element: dy and x in, dx out.
template <typename T, bool kExact>
struct GeluBackwardBody : Unprepared {
  const T *dy, *x;
  T* dx;

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
class GeluBackward final : public Kernel {
 public:
  GeluBackward(const Context& context, const compiler::Graph& graph, const compiler::Op& op)
      : context_(context), elements_(kernels::output(graph, op, 0).shape.elements()), exact_(op.attributes.exact) {}

  void enqueue(std::span<std::byte* const> operands, std::byte*, const LaunchParameters*,
               cudaStream_t stream) const override {
    exact_ ? enqueue_form<true>(operands, stream) : enqueue_form<false>(operands, stream);
  }

 private:
  template <bool kExact>
  void enqueue_form(std::span<std::byte* const> operands, cudaStream_t stream) const {
    GeluBackwardBody<T, kExact> body;
    body.dy = kernels::as<T>(operands[0]);
    body.x = kernels::as<T>(operands[1]);
    body.dx = kernels::as<T>(operands[2]);
    launch_elementwise<kPack<T>>("gelu_backward", context_, elements_, body, stream);
  }

  Context context_;
  std::int64_t elements_;
  bool exact_;
};

}  // namespace

std::unique_ptr<Kernel> make_gelu_backward(const Context& context, const compiler::Graph& graph,
                                           const compiler::Op& op) {
  return make_for<GeluBackward, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
