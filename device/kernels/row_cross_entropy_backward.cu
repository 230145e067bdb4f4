#include "device/kernels/cuda_factories.h"
#include "device/kernels/row_groups.cuh"

namespace l2l::device::cuda {
namespace {

// -1: no target. Another that is no column makes its row NaN.
template <typename T>
struct RowCrossEntropyBackwardBody : RowGroupBody {
  using Element = T;
  const float* dy = nullptr;
  const T* logits = nullptr;
  const std::int32_t* targets = nullptr;
  T* dlogits = nullptr;

  explicit RowCrossEntropyBackwardBody(const OpView& op) : RowGroupBody(op.input(1)) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, dy, logits, targets, dlogits); }

  template <typename Group>
  __device__ void at(std::int64_t row, Group& group) const {
    using Values = typename Group::Values;
    const std::int64_t begin = row * columns, target = targets[row];
    if (target < 0 || target >= columns) {
      Values values;
#pragma unroll
      for (int i = 0; i < Group::kCount; ++i) values[i] = target == -1 ? 0.0f : NAN;
      group.each([&](std::int64_t column) { store_floats(dlogits + begin + column, values); });
      return;
    }
    const Exponentials all = exponentials_of(logits + begin, group);
    const float factor = dy[row];
    group.each([&](std::int64_t column) {
      Values values = load_floats<Group::kCount>(logits + begin + column);
#pragma unroll
      for (int i = 0; i < Group::kCount; ++i) {
        const float share = expf(values[i] - all.largest) / all.sum;
        values[i] = (share - (column + i == target ? 1.0f : 0.0f)) * factor;
      }
      store_floats(dlogits + begin + column, values);
    });
  }
};

template <typename T>
using RowCrossEntropyBackward = RowGroupKernel<RowCrossEntropyBackwardBody<T>>;

}  // namespace

const Factory make_row_cross_entropy_backward = make_for_input<RowCrossEntropyBackward, 1>;

}  // namespace l2l::device::cuda
