#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 8 bytes in and 4 bytes out per element.
struct AccumulateBody : ElementwiseBody {
  using Element = float;
  using ElementwiseBody::ElementwiseBody;
  const float* x = nullptr;
  float* y = nullptr;

  void bind(Operands operands, const LaunchParameters*) {
    x = as<const float>(operands[0]);
    y = as<float>(operands[1]);
  }

  template <int Count>
  __device__ Floats<Count> values(std::int64_t first) const {
    Floats<Count> sums = load_floats<Count>(y + first);
    const Floats<Count> more = load_floats<Count>(x + first);
#pragma unroll
    for (int i = 0; i < Count; ++i) sums[i] += more[i];
    return sums;
  }
};

using Accumulate = ElementwiseKernel<Stored<AccumulateBody>>;

}  // namespace

const Factory make_accumulate = make_one<Accumulate>;

}  // namespace l2l::device::cuda
