#include "device/kernels/cuda_factories.h"
#include "device/kernels/window.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
struct AveragePoolBackwardBody : WindowBody<T> {
  const T* dy = nullptr;
  T* dx = nullptr;

  AveragePoolBackwardBody(const OpView& op) : WindowBody<T>(op) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, dy, dx); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place cell = place_of<Count>(first, this->columns);
    Floats<Count> sum{};
    this->window.each_covering(
        this->window.pixel(cell.row), [&](const SlidingWindow::Point&, std::int64_t row, std::int32_t) {
          const Floats<Count> values = load_floats<Count>(dy + row * this->columns + cell.column);
#pragma unroll
          for (int i = 0; i < Count; ++i) sum[i] += values[i];
        });
    const auto area = static_cast<float>(this->window.area());
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] /= area;
    store_floats(dx + first, sum);
  }
};

template <typename T>
using AveragePoolBackward = ElementwiseKernel<AveragePoolBackwardBody<T>>;

}  // namespace

const Factory make_average_pool_backward = make_for_output<AveragePoolBackward>;

}  // namespace l2l::device::cuda
