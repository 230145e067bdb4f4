#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/common/random.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves 2 elements of T per element: dy in, dx out, which the sum reads from registers.
template <typename T>
struct DroppedGradient {
  const T* dy;
  T* dx;
  std::int64_t columns;
  const LaunchParameters* parameters;
  std::uint32_t rng_op;
  float probability;
  DropoutMask mask;

  __device__ void prepare() { mask = DropoutMask(parameters, rng_op, probability); }
  template <int Count>
  __device__ Floats<Count> at(std::int64_t row, std::int64_t column) const {
    const std::int64_t first = row * columns + column;
    Floats<Count> gradient = dropped(mask, first, load_floats<Count>(dy + first));
#pragma unroll
    for (int i = 0; i < Count; ++i) gradient[i] = rounded<T>(gradient[i]);
    store_floats(dx + first, gradient);
    return gradient;
  }
};

template <typename T>
class DropoutBias final : public Kernel {
 public:
  DropoutBias(const Context&, const compiler::Graph& graph, const compiler::Op& op)
      : attributes_(op.attributes),
        columns_(kernels::input(graph, op, 0).shape[1]),
        sums_(kernels::input(graph, op, 0).shape[0], columns_) {
    require_random_elements(kernels::input(graph, op, 0).shape.elements());
  }

  Bytes workspace() const override { return sums_.workspace(); }

  void enqueue(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    const DroppedGradient<T> source{kernels::as<T>(operands[0]), kernels::as<T>(operands[1]), columns_, parameters,
                                    attributes_.rng_op,          attributes_.probability,     {}};
    sums_.enqueue("dropout_bias", source, workspace, kernels::as<float>(operands[2]), stream);
  }

 private:
  compiler::Attributes attributes_;
  std::int64_t columns_;
  ColumnSums<T> sums_;
};

}  // namespace

std::unique_ptr<Kernel> make_dropout_bias(const Context& context, const compiler::Graph& graph,
                                          const compiler::Op& op) {
  return make_for<DropoutBias, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
