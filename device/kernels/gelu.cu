#include "device/kernels/gelu.cuh"

#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 2 elements of T per element.
template <typename T, bool kExact>
struct GeluBody : Unprepared {
  const T* x;
  T* y;

  template <int Count>
  __device__ void at(std::int64_t first) const {
    Floats<Count> values = load_floats<Count>(x + first);
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] = gelu<kExact>(values[i]);
    store_floats(y + first, values);
  }
};

template <typename T>
class Gelu final : public Kernel {
 public:
  Gelu(const Context& context, const compiler::Graph& graph, const compiler::Op& op)
      : context_(context), elements_(kernels::output(graph, op, 0).shape.elements()), exact_(op.attributes.exact) {}

  void enqueue(std::span<std::byte* const> operands, std::byte*, const LaunchParameters*,
               cudaStream_t stream) const override {
    exact_ ? enqueue_form<true>(operands, stream) : enqueue_form<false>(operands, stream);
  }

 private:
  template <bool kExact>
  void enqueue_form(std::span<std::byte* const> operands, cudaStream_t stream) const {
    GeluBody<T, kExact> body;
    body.x = kernels::as<T>(operands[0]);
    body.y = kernels::as<T>(operands[1]);
    launch_elementwise<kPack<T>>("gelu", context_, elements_, body, stream);
  }

  Context context_;
  std::int64_t elements_;
  bool exact_;
};

}  // namespace

std::unique_ptr<Kernel> make_gelu(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<Gelu, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
