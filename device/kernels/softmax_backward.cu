#include "device/kernels/cuda_factories.h"
#include "device/kernels/row_groups.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
struct SoftmaxBackwardBody : RowGroupBody {
  using Element = T;
  const T *dy = nullptr, *y = nullptr;
  T* dx = nullptr;

  explicit SoftmaxBackwardBody(const OpView& op) : RowGroupBody(op.input(0)) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, dy, y, dx); }

  template <typename Group>
  __device__ void at(std::int64_t row, Group& group) const {
    using Values = typename Group::Values;
    const std::int64_t begin = row * columns;
    float sum = 0;
    group.each([&](std::int64_t column) {
      const Values gradients = load_floats<Group::kCount>(dy + begin + column);
      const Values shares = load_floats<Group::kCount>(y + begin + column);
#pragma unroll
      for (int i = 0; i < Group::kCount; ++i) sum += gradients[i] * shares[i];
    });
    sum = group.sum(sum);
    group.each([&](std::int64_t column) {
      Values gradients = load_floats<Group::kCount>(dy + begin + column);
      const Values shares = load_floats<Group::kCount>(y + begin + column);
#pragma unroll
      for (int i = 0; i < Group::kCount; ++i) gradients[i] = shares[i] * (gradients[i] - sum);
      store_floats(dx + begin + column, gradients);
    });
  }
};

template <typename T>
using SoftmaxBackward = RowGroupKernel<SoftmaxBackwardBody<T>>;

}  // namespace

const Factory make_softmax_backward = make_for_output<SoftmaxBackward>;

}  // namespace l2l::device::cuda
