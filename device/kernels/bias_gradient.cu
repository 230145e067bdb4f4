#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves one element of T per element.
template <typename T>
struct GradientSource : MatrixSource<T> {
  using Element = T;

  explicit GradientSource(const OpView& op) { this->stride = op.input(0).shape[1]; }
  void bind(Operands operands, const LaunchParameters*) { this->matrix = as<T>(operands[0]); }
};

template <typename T>
using BiasGradient = ColumnSumsKernel<GradientSource<T>>;

}  // namespace

const Factory make_bias_gradient = make_for_input<BiasGradient>;

}  // namespace l2l::device::cuda
