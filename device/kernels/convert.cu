#include "device/cuda/elementwise.cuh"
#include "device/cuda/factories.h"
#include "device/kernels/operands.h"

namespace l2l::device::cuda {
namespace {

// Moves 4 bytes in and one element of T out per element.
template <typename T>
struct ConvertBody : Unprepared {
  const float* x;
  T* y;

  template <int Count>
  __device__ void at(std::int64_t first) const {
    store_floats(y + first, load_floats<Count>(x + first));
  }
};

template <typename T>
class Convert final : public Kernel {
 public:
  Convert(const Context& context, const graph::Graph& graph, const graph::Op& op)
      : context_(context), elements_(kernels::output(graph, op, 0).shape.elements()) {}

  void enqueue(std::span<std::byte* const> operands, std::byte*, const LaunchParameters*,
               cudaStream_t stream) const override {
    ConvertBody<T> body;
    body.x = kernels::as<float>(operands[0]);
    body.y = kernels::as<T>(operands[1]);
    launch_elementwise<kPack<T>>("convert", context_, elements_, body, stream);
  }

 private:
  Context context_;
  std::int64_t elements_;
};

}  // namespace

std::unique_ptr<Kernel> make_convert(const Context& context, const graph::Graph& graph, const graph::Op& op) {
  return make_for<Convert, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
