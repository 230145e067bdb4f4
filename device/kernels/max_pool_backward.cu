#include <cmath>

#include "device/kernels/cuda_factories.h"
#include "device/kernels/window.cuh"

namespace l2l::device::cuda {
namespace {

// An element of the image gets dy of each place where it is y, unless an earlier element of the window is, too.
template <typename T>
struct MaxPoolBackwardBody : WindowBody<T> {
  const T *dy = nullptr, *x = nullptr, *y = nullptr;
  T* dx = nullptr;

  MaxPoolBackwardBody(const OpView& op) : WindowBody<T>(op) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, dy, x, y, dx); }

  // Bit i: element i is the largest, or, as the largest, NaN.
  template <int Count>
  __device__ static unsigned int equal(const Floats<Count>& largest, const Floats<Count>& values) {
    unsigned int bits = 0;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const bool same = values[i] == largest[i] || (isnan(values[i]) && isnan(largest[i]));
      bits |= same ? 1u << i : 0u;
    }
    return bits;
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place cell = place_of<Count>(first, this->columns);
    const Floats<Count> own = load_floats<Count>(x + first);
    Floats<Count> sum{};
    const auto visit = [&](const SlidingWindow::Point& place, std::int64_t row, std::int32_t element) {
      const std::int64_t from = row * this->columns + cell.column;
      const Floats<Count> largest = load_floats<Count>(y + from);
      unsigned int chosen = equal<Count>(largest, own);
      for (std::int32_t earlier = 0; earlier < element && chosen != 0; ++earlier) {
        const std::int32_t ky = earlier / this->window.size[1], kx = earlier - ky * this->window.size[1];
        const std::int64_t other = this->window.row_under(place, ky, kx);
        if (other < 0) continue;
        chosen &= ~equal<Count>(largest, load_floats<Count>(x + other * this->columns + cell.column));
      }
      if (chosen == 0) return;
      const Floats<Count> gradients = load_floats<Count>(dy + from);
#pragma unroll
      for (int i = 0; i < Count; ++i) sum[i] += (chosen >> i & 1u) != 0 ? gradients[i] : 0.0f;
    };
    this->window.each_covering(this->window.pixel(cell.row), visit);
    store_floats(dx + first, sum);
  }
};

template <typename T>
using MaxPoolBackward = ElementwiseKernel<MaxPoolBackwardBody<T>>;

}  // namespace

const Factory make_max_pool_backward = make_for_output<MaxPoolBackward>;

}  // namespace l2l::device::cuda
