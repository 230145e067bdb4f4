#include <cmath>

#include "device/kernels/cuda_factories.h"
#include "device/kernels/window.cuh"

namespace l2l::device::cuda {
namespace {

// The largest of what lies inside the image; a NaN is larger than any number.
template <typename T>
struct MaxPoolBody : WindowBody<T> {
  const T* x = nullptr;
  T* y = nullptr;

  MaxPoolBody(const OpView& op) : WindowBody<T>(op) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place cell = place_of<Count>(first, this->columns);
    Floats<Count> largest;
#pragma unroll
    for (int i = 0; i < Count; ++i) largest[i] = -INFINITY;
    this->window.each_covered(this->window.place(cell.row), [&](std::int64_t row, std::int32_t) {
      const Floats<Count> values = load_floats<Count>(x + row * this->columns + cell.column);
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        if (values[i] > largest[i] || isnan(values[i])) largest[i] = values[i];
      }
    });
    store_floats(y + first, largest);
  }
};

template <typename T>
using MaxPool = ElementwiseKernel<MaxPoolBody<T>>;

}  // namespace

const Factory make_max_pool = make_for_output<MaxPool>;

}  // namespace l2l::device::cuda
