#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 3 elements of T per element: two in, one out.
template <typename T>
struct AddBody : Unprepared {
  const T *a, *b;
  T* y;

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
class Add final : public Kernel {
 public:
  Add(const Context& context, const compiler::Graph& graph, const compiler::Op& op)
      : context_(context), elements_(kernels::output(graph, op, 0).shape.elements()) {}

  void enqueue(std::span<std::byte* const> operands, std::byte*, const LaunchParameters*,
               cudaStream_t stream) const override {
    AddBody<T> body;
    body.a = kernels::as<T>(operands[0]);
    body.b = kernels::as<T>(operands[1]);
    body.y = kernels::as<T>(operands[2]);
    launch_elementwise<kPack<T>>("add", context_, elements_, body, stream);
  }

 private:
  Context context_;
  std::int64_t elements_;
};

}  // namespace

std::unique_ptr<Kernel> make_add(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<Add, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
