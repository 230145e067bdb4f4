#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"
#include "device/kernels/gelu.cuh"

namespace l2l::device::cuda {
namespace {

// Moves 3 elements of T per element: dy and x in, dx out, which the sum reads from registers.
template <typename T, bool kExact>
struct GeluGradient {
  const T *dy, *x;
  T* dx;
  std::int64_t columns;

  __device__ void prepare() {}
  template <int Count>
  __device__ Floats<Count> at(std::int64_t row, std::int64_t column) const {
    const std::int64_t first = row * columns + column;
    Floats<Count> gradient = load_floats<Count>(dy + first);
    const Floats<Count> values = load_floats<Count>(x + first);
#pragma unroll
    for (int i = 0; i < Count; ++i)
      gradient[i] = rounded<T>(__fmul_rn(gradient[i], gelu_derivative<kExact>(values[i])));
    store_floats(dx + first, gradient);
    return gradient;
  }
};

template <typename T>
class GeluBackwardBias final : public Kernel {
 public:
  GeluBackwardBias(const Context&, const compiler::Graph& graph, const compiler::Op& op)
      : columns_(kernels::input(graph, op, 0).shape[1]),
        exact_(op.attributes.exact),
        sums_(kernels::input(graph, op, 0).shape[0], columns_) {}

  Bytes workspace() const override { return sums_.workspace(); }

  void enqueue(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters*,
               cudaStream_t stream) const override {
    exact_ ? enqueue_form<true>(operands, workspace, stream) : enqueue_form<false>(operands, workspace, stream);
  }

 private:
  template <bool kExact>
  void enqueue_form(std::span<std::byte* const> operands, std::byte* workspace, cudaStream_t stream) const {
    const GeluGradient<T, kExact> source{kernels::as<T>(operands[0]), kernels::as<T>(operands[1]),
                                         kernels::as<T>(operands[2]), columns_};
    sums_.enqueue("gelu_backward_bias", source, workspace, kernels::as<float>(operands[3]), stream);
  }

  std::int64_t columns_;
  bool exact_;
  ColumnSums<T> sums_;
};

}  // namespace

std::unique_ptr<Kernel> make_gelu_backward_bias(const Context& context, const compiler::Graph& graph,
                                                const compiler::Op& op) {
  return make_for<GeluBackwardBias, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
