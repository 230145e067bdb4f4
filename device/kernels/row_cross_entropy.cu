#include "device/kernels/cuda_factories.h"
#include "device/kernels/row_groups.cuh"

namespace l2l::device::cuda {
namespace {

// -1: no target. Another that is no column makes its loss NaN.
template <typename T>
struct RowCrossEntropyBody : RowGroupBody {
  using Element = T;
  const T* logits = nullptr;
  const std::int32_t* targets = nullptr;
  float* y = nullptr;

  explicit RowCrossEntropyBody(const OpView& op) : RowGroupBody(op.input(0)) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, logits, targets, y); }

  template <typename Group>
  __device__ void at(std::int64_t row, Group& group) const {
    const std::int64_t target = targets[row];
    if (target < 0 || target >= columns) {
      if (group.is_first()) y[row] = target == -1 ? 0.0f : NAN;
      return;
    }
    const T* const from = logits + row * columns;
    const Exponentials all = exponentials_of(from, group);
    if (group.is_first()) y[row] = logf(all.sum) - (widen(from[target]) - all.largest);
  }
};

template <typename T>
using RowCrossEntropy = RowGroupKernel<RowCrossEntropyBody<T>>;

}  // namespace

const Factory make_row_cross_entropy = make_for_input<RowCrossEntropy>;

}  // namespace l2l::device::cuda
