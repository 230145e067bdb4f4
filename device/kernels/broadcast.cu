#include "device/kernels/cuda_factories.h"
#include "device/kernels/strided.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
struct BroadcastBody : StridedBody<T> {
  BroadcastBody(const OpView& op) : StridedBody<T>(op, strided(op.attributes), op.attributes.factor) {}

  static Strided strided(const compiler::Attributes& attributes) {
    const auto kept = [&](std::size_t i) { return (attributes.kept >> i & 1u) != 0; };
    Strided from{attributes.dims, {}};
    for (std::size_t i = 0; i < 4; ++i) {
      if (!kept(i)) from.dims[i] = 1;
    }
    from.strides = dense_strides(from.dims);
    from.dims = attributes.dims;
    for (std::size_t i = 0; i < 4; ++i) {
      if (!kept(i)) from.strides[i] = 0;
    }
    return from;
  }
};

template <typename T>
using Broadcast = ElementwiseKernel<BroadcastBody<T>>;

}  // namespace

const Factory make_broadcast = make_for_output<Broadcast>;

}  // namespace l2l::device::cuda
