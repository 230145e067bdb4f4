#include "device/kernels/cuda_factories.h"
#include "device/kernels/upsample.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
struct UpsampleBackwardBody : UpsamplingBody<T> {
  const T* dy = nullptr;
  T* dx = nullptr;

  UpsampleBackwardBody(const OpView& op) : UpsamplingBody<T>(op) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, dy, dx); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place cell = place_of<Count>(first, this->columns);
    const auto pixel = this->point(cell.row, this->height.extent, this->width.extent);
    const std::int64_t image = pixel.sample * this->height.points();
    Floats<Count> sum{};
    this->height.for_points_of(pixel.y, [&](std::int32_t row, float of_row) {
      const T* const line = dy + (image + row) * this->width.points() * this->columns + cell.column;
      this->width.for_points_of(pixel.x, [&](std::int32_t column, float part) {
        const Floats<Count> values = load_floats<Count>(line + column * this->columns);
#pragma unroll
        for (int i = 0; i < Count; ++i) sum[i] += of_row * part * values[i];
      });
    });
    store_floats(dx + first, sum);
  }
};

template <typename T>
using UpsampleBackward = ElementwiseKernel<UpsampleBackwardBody<T>>;

}  // namespace

const Factory make_upsample_backward = make_for_output<UpsampleBackward>;

}  // namespace l2l::device::cuda
