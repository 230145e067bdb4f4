#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves one element of T per element.
template <typename T>
struct GradientSource : Unprepared {
  using Element = T;
  const T* dy = nullptr;
  std::int64_t columns;

  explicit GradientSource(const OpView& op) : columns(op.input(0).shape[1]) {}
  void bind(Operands operands, const LaunchParameters*) { dy = as<T>(operands[0]); }

  template <int Count>
  __device__ Floats<Count> at(std::int64_t row, std::int64_t column) const {
    return load_floats<Count>(dy + row * columns + column);
  }
};

template <typename T>
using BiasGradient = ColumnSumsKernel<GradientSource<T>>;

}  // namespace

const Factory make_bias_gradient = make_for_input<BiasGradient>;

}  // namespace l2l::device::cuda
