#include "device/kernels/cuda_factories.h"
#include "device/kernels/strided.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
struct PermuteBody : StridedBody<T> {
  PermuteBody(const OpView& op) : StridedBody<T>(op, strided(op.attributes), 1) {}

  static Strided strided(const compiler::Attributes& attributes) {
    const std::array<std::int64_t, 4> dense = dense_strides(attributes.dims);
    Strided from{};
    for (std::size_t i = 0; i < 4; ++i) {
      from.dims[i] = attributes.dims[attributes.axes[i]];
      from.strides[i] = dense[attributes.axes[i]];
    }
    return from;
  }
};

template <typename T>
using Permute = ElementwiseKernel<PermuteBody<T>>;

}  // namespace

const Factory make_permute = make_for_output<Permute>;

}  // namespace l2l::device::cuda
