#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/common/random.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 2 elements of T per element (3 with a residual); a block of random bits decides 4 or 16. Groups of elements are
// such of those of all devices, too.
template <typename T, bool kAdd>
struct DropoutBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  const T *x = nullptr, *residual = nullptr;
  T* y = nullptr;
  const LaunchParameters* parameters = nullptr;
  std::uint32_t rng_op;
  float probability;
  std::int64_t first_element;  // of those of all devices
  DropoutMask mask;

  DropoutBody(const OpView& op)
      : ElementwiseBody(op),
        rng_op(op.attributes.rng_op),
        probability(op.attributes.probability),
        first_element(op.attributes.shard.index * elements) {
    columns = first_element;
    kernels::require_random_elements(op.attributes.shard.count * elements, compiler::name_of(op.kind));
  }
  void bind(Operands operands, const LaunchParameters* launch) {
    x = as<T>(operands[0]);
    if (kAdd) residual = as<T>(operands[1]);
    y = as<T>(operands[kAdd ? 2 : 1]);
    parameters = launch;
  }

  __device__ void prepare() { mask = DropoutMask(*parameters, rng_op, probability); }

  template <int Count>
  __device__ Floats<Count> values(std::int64_t first) const {
    Floats<Count> result = dropped(mask, first_element + first, load_floats<Count>(x + first));
    if constexpr (kAdd) {
      const Floats<Count> other = load_floats<Count>(residual + first);
#pragma unroll
      for (int i = 0; i < Count; ++i) result[i] = rounded<T>(result[i]) + other[i];
    }
    return result;
  }
};

template <typename T>
using Dropout = ElementwiseKernel<Stored<DropoutBody<T, false>>>;
template <typename T>
using DropoutAdd = ElementwiseKernel<Stored<DropoutBody<T, true>>>;
template <typename T>
using DropoutBias = ColumnSumsKernel<StoredSource<DropoutBody<T, false>>>;

}  // namespace

const Factory make_dropout = make_for_output<Dropout>;

const Factory make_dropout_add = make_for_output<DropoutAdd>;

const Factory make_dropout_bias = make_for_input<DropoutBias>;

}  // namespace l2l::device::cuda
