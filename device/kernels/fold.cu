#include "device/kernels/cuda_factories.h"
#include "device/kernels/window.cuh"

namespace l2l::device::cuda {
namespace {

// Reads dy once and writes dx once.
template <typename T>
struct FoldBody : WindowBody<T> {
  const T* dy = nullptr;
  T* dx = nullptr;

  FoldBody(const OpView& op) : WindowBody<T>(op) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, dy, dx); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place cell = place_of<Count>(first, this->columns);
    const std::int64_t channels = this->columns;
    const std::int32_t area = this->window.area();
    Floats<Count> sum{};
    this->window.each_covering(
        this->window.pixel(cell.row), [&](const SlidingWindow::Point&, std::int64_t row, std::int32_t element) {
          const Floats<Count> values = load_floats<Count>(dy + (row * area + element) * channels + cell.column);
#pragma unroll
          for (int i = 0; i < Count; ++i) sum[i] += values[i];
        });
    store_floats(dx + first, sum);
  }
};

template <typename T>
using Fold = ElementwiseKernel<FoldBody<T>>;

}  // namespace

const Factory make_fold = make_for_output<Fold>;

}  // namespace l2l::device::cuda
