#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/common/rows.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 3 elements of T per element of y: gate and up in, y out.
template <typename T>
struct SwigluBody : Unprepared {
  const T* x;  // rows are [gate | up]
  T* y;
  std::int64_t width;

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, width);
    const T* const gate = x + 2 * place.row * width + place.column;
    Floats<Count> values = load_floats<Count>(gate);
    const Floats<Count> up = load_floats<Count>(gate + width);
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      values[i] = __fdividef(values[i], 1.0f + expf(fminf(-values[i], 80.0f))) * up[i];
    }
    store_floats(y + first, values);
  }
};

template <typename T>
class Swiglu final : public Kernel {
 public:
  Swiglu(const Context& context, const compiler::Graph& graph, const compiler::Op& op)
      : context_(context),
        elements_(kernels::output(graph, op, 0).shape.elements()),
        width_(kernels::output(graph, op, 0).shape[1]) {
    require_groups<T>(elements_, width_);
  }

  void enqueue(std::span<std::byte* const> operands, std::byte*, const LaunchParameters*,
               cudaStream_t stream) const override {
    SwigluBody<T> body;
    body.x = kernels::as<T>(operands[0]);
    body.y = kernels::as<T>(operands[1]);
    body.width = width_;
    if (rows_are_packed<T>(width_)) {
      launch_elementwise<kPack<T>>("swiglu", context_, elements_, body, stream);
    } else {
      launch_elementwise<1>("swiglu", context_, elements_, body, stream);
    }
  }

 private:
  Context context_;
  std::int64_t elements_, width_;
};

}  // namespace

std::unique_ptr<Kernel> make_swiglu(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<Swiglu, Kernel>(kernels::output(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
