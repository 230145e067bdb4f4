#include "device/kernels/cuda_factories.h"
#include "device/kernels/indexed_rows.cuh"

namespace l2l::device::cuda {
namespace {

// Moves 2 elements of T per element.
template <typename T>
struct GatherBody : GatheredRows<T> {
  const T* x = nullptr;
  T* y = nullptr;

  GatherBody(const OpView& op) : GatheredRows<T>(op, 1) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, this->indices, y); }

  template <int Count>
  __device__ void at(std::int64_t first) const {
    const Place place = place_of<Count>(first, this->columns);
    const T* const sample = x + place.row / this->taken * this->rows * this->columns;
    const std::int64_t index = this->indices[place.row];
    store_floats(y + first, row_or_nan<Count>(sample, index, this->rows, this->columns, place.column));
  }
};

template <typename T>
using Gather = ElementwiseKernel<GatherBody<T>>;

}  // namespace

const Factory make_gather = make_for_output<Gather>;

}  // namespace l2l::device::cuda
