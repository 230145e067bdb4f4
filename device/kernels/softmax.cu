#include "device/kernels/cuda_factories.h"
#include "device/kernels/row_groups.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
struct SoftmaxBody : RowGroupBody {
  using Element = T;
  const T* x = nullptr;
  T* y = nullptr;

  explicit SoftmaxBody(const OpView& op) : RowGroupBody(op.input(0)) {}
  void bind(Operands operands, const LaunchParameters*) { point_to(operands, x, y); }

  template <typename Group>
  __device__ void at(std::int64_t row, Group& group) const {
    const T* const from = x + row * columns;
    const Exponentials all = exponentials_of(from, group);
    group.each([&](std::int64_t column) {
      typename Group::Values values = load_floats<Group::kCount>(from + column);
#pragma unroll
      for (int i = 0; i < Group::kCount; ++i) values[i] = expf(values[i] - all.largest) / all.sum;
      store_floats(y + row * columns + column, values);
    });
  }
};

template <typename T>
using SoftmaxOfRows = RowGroupKernel<SoftmaxBody<T>>;

}  // namespace

const Factory make_softmax = make_for_output<SoftmaxOfRows>;

}  // namespace l2l::device::cuda
