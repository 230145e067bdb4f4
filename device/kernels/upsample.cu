#include "device/kernels/cuda_factories.h"
#include "device/kernels/upsample.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
struct UpsampleBody : UpsamplingBody<T> {
  const T* x = nullptr;
  T* y = nullptr;

  UpsampleBody(const OpView& op) : UpsamplingBody<T>(op) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place cell = place_of<Count>(first, this->columns);
    const auto point = this->point(cell.row, this->height.points(), this->width.points());
    const kernels::Interpolation down = this->height.at(point.y), right = this->width.at(point.x);
    const std::int64_t image = point.sample * this->height.extent;
    const auto load = [&](std::int32_t row, std::int32_t column) {
      return load_floats<Count>(x + ((image + row) * this->width.extent + column) * this->columns + cell.column);
    };
    const Floats<Count> a = load(down.first, right.first), b = load(down.first, right.second);
    const Floats<Count> c = load(down.second, right.first), d = load(down.second, right.second);
    Floats<Count> result{};
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const float upper = a[i] * (1 - right.weight) + b[i] * right.weight;
      const float lower = c[i] * (1 - right.weight) + d[i] * right.weight;
      result[i] = upper * (1 - down.weight) + lower * down.weight;
    }
    store_floats(y + first, result);
  }
};

template <typename T>
using Upsample = ElementwiseKernel<UpsampleBody<T>>;

}  // namespace

const Factory make_upsample = make_for_output<Upsample>;

}  // namespace l2l::device::cuda
