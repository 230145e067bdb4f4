#include "device/kernels/cuda_factories.h"
#include "device/kernels/indexed_rows.cuh"

namespace l2l::device::cuda {
namespace {

// An element of x goes through the indices of its sample, which all threads of a row read together.
template <typename T>
struct GatherBackwardBody : GatheredRows<T> {
  const T* dy = nullptr;
  T* dx = nullptr;

  GatherBackwardBody(const OpView& op) : GatheredRows<T>(op, 0) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, this->indices, dy, dx); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, this->columns);
    const std::int64_t sample = place.row / this->rows, own = place.row - sample * this->rows;
    Floats<Count> sum{};
    for (std::int64_t i = sample * this->taken; i < (sample + 1) * this->taken; ++i) {
      if (this->indices[i] != own) continue;
      const Floats<Count> values = load_floats<Count>(dy + i * this->columns + place.column);
#pragma unroll
      for (int k = 0; k < Count; ++k) sum[k] += values[k];
    }
    store_floats(dx + first, sum);
  }
};

template <typename T>
using GatherBackward = ElementwiseKernel<GatherBackwardBody<T>>;

}  // namespace

const Factory make_gather_backward = make_for_output<GatherBackward>;

}  // namespace l2l::device::cuda
