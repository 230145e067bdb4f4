#include "device/kernels/cuda_factories.h"
#include "device/kernels/window.cuh"

namespace l2l::device::cuda {
namespace {

// Reads x as often as windows overlap, mostly from caches.
template <typename T>
struct DepthwiseBody : WindowBody<T> {
  const T *x = nullptr, *w = nullptr;
  T* y = nullptr;

  DepthwiseBody(const OpView& op) : WindowBody<T>(op) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, w, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place cell = place_of<Count>(first, this->columns);
    const T* const weights = w + cell.column * this->window.area();
    Floats<Count> sum{};
    this->window.each_covered(this->window.place(cell.row), [&](std::int64_t row, std::int32_t element) {
      const Floats<Count> values = load_floats<Count>(x + row * this->columns + cell.column);
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] += values[i] * widen(weights[i * this->window.area() + element]);
    });
    store_floats(y + first, sum);
  }
};

template <typename T>
using Depthwise = ElementwiseKernel<DepthwiseBody<T>>;

}  // namespace

const Factory make_depthwise = make_for_output<Depthwise>;

}  // namespace l2l::device::cuda
