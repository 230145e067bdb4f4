#include "device/kernels/cuda_factories.h"
#include "device/kernels/window.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
struct AveragePoolBody : WindowBody<T> {
  const T* x = nullptr;
  T* y = nullptr;

  AveragePoolBody(const OpView& op) : WindowBody<T>(op) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place cell = place_of<Count>(first, this->columns);
    Floats<Count> sum{};
    this->window.each_covered(this->window.place(cell.row), [&](std::int64_t row, std::int32_t) {
      const Floats<Count> values = load_floats<Count>(x + row * this->columns + cell.column);
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] += values[i];
    });
    const auto area = static_cast<float>(this->window.area());
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] /= area;
    store_floats(y + first, sum);
  }
};

template <typename T>
using AveragePool = ElementwiseKernel<AveragePoolBody<T>>;

}  // namespace

const Factory make_average_pool = make_for_output<AveragePool>;

}  // namespace l2l::device::cuda
