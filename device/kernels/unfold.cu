#include "device/kernels/cuda_factories.h"
#include "device/kernels/window.cuh"

namespace l2l::device::cuda {
namespace {

// Writes an element of T per element of y; the image's, which are fewer, are read from the caches.
template <typename T>
struct UnfoldBody : WindowBody<T> {
  const T* x = nullptr;
  T* y = nullptr;
  std::int64_t channels;

  UnfoldBody(const OpView& op) : WindowBody<T>(op), channels(op.input(0).shape[1]) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, y); }

  // Neighbouring columns of y at one place, all of one element of the window.
  template <int Count>
  __device__ Elements<Count, T> covered(const SlidingWindow::Point& place, std::int64_t column) const {
    const auto index = static_cast<std::uint32_t>(column), width = static_cast<std::uint32_t>(channels);
    const auto element = static_cast<std::int32_t>(index / width);
    const std::int32_t ky = element / this->window.size[1], kx = element - ky * this->window.size[1];
    const std::int64_t row = this->window.row_under(place, ky, kx);
    if (row < 0) return {};
    return load_elements<Count>(x + row * channels + (column - element * channels));
  }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place cell = place_of<Count>(first, this->columns);
    const SlidingWindow::Point place = this->window.place(cell.row);
    Elements<Count, T> values;
    if (rows_are_packed<T>(channels)) {
      values = covered<Count>(place, cell.column);
    } else {
#pragma unroll
      for (int i = 0; i < Count; ++i) values[i] = covered<1>(place, cell.column + i)[0];
    }
    store_elements(y + first, values);
  }
};

template <typename T>
using Unfold = ElementwiseKernel<UnfoldBody<T>>;

}  // namespace

const Factory make_unfold = make_for_output<Unfold>;

}  // namespace l2l::device::cuda
