#include "device/kernels/cuda_factories.h"
#include "device/kernels/window.cuh"

namespace l2l::device::cuda {
namespace {

// Reads x as often as windows overlap, mostly from caches.
template <typename T>
struct DepthwiseBody : WindowBody<T> {
  const T* x = nullptr;
  const T* weights = nullptr;  // [elements of the window, channels]
  T* y = nullptr;

  DepthwiseBody(const OpView& op) : WindowBody<T>(op) {}

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place cell = place_of<Count>(first, this->columns);
    Floats<Count> sum{};
    this->window.each_covered(this->window.place(cell.row), [&](std::int64_t row, std::int32_t element) {
      const Floats<Count> values = load_floats<Count>(x + row * this->columns + cell.column);
      const Floats<Count> factors = load_floats<Count>(weights + element * this->columns + cell.column);
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] += values[i] * factors[i];
    });
    store_floats(y + first, sum);
  }
};

template <typename T>
class Depthwise final : public Kernel {
 public:
  Depthwise(const Context& context, const OpView& op) : context_(context), body_(op) {
    require_groups<T>(body_.elements, body_.columns);
  }

  Bytes workspace() const override { return static_cast<Bytes>(body_.columns * body_.window.area()) * sizeof(T); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters*, cudaStream_t stream) const override {
    DepthwiseBody<T> body = body_;
    body.x = as<const T>(operands[0]);
    body.y = as<T>(operands[2]);
    body.weights = reinterpret_cast<const T*>(workspace);
    launch_transpose_weights(body.columns, body.window.area(), as<const T>(operands[1]),
                             reinterpret_cast<T*>(workspace), stream);
    launch_elementwise_rows<T>("depthwise", context_, body.elements, body.columns, body, stream);
  }

 private:
  Context context_;
  DepthwiseBody<T> body_;  // without addresses
};

}  // namespace

const Factory make_depthwise = make_for_output<Depthwise>;

}  // namespace l2l::device::cuda
