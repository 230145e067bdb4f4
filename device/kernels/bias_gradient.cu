#include "device/kernels/common/column_sums.cuh"
#include "device/kernels/common/operands.h"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves one element of T per element.
template <typename T>
struct Gradient {
  const T* dy;
  std::int64_t columns;

  __device__ void prepare() {}
  template <int Count>
  __device__ Floats<Count> at(std::int64_t row, std::int64_t column) const {
    return load_floats<Count>(dy + row * columns + column);
  }
};

template <typename T>
class BiasGradient final : public Kernel {
 public:
  BiasGradient(const Context&, const compiler::Graph& graph, const compiler::Op& op)
      : columns_(kernels::input(graph, op, 0).shape[1]), sums_(kernels::input(graph, op, 0).shape[0], columns_) {}

  Bytes workspace() const override { return sums_.workspace(); }

  void enqueue(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters*,
               cudaStream_t stream) const override {
    const Gradient<T> source{kernels::as<T>(operands[0]), columns_};
    sums_.enqueue("bias_gradient", source, workspace, kernels::as<float>(operands[1]), stream);
  }

 private:
  std::int64_t columns_;
  ColumnSums<T> sums_;
};

}  // namespace

std::unique_ptr<Kernel> make_bias_gradient(const Context& context, const compiler::Graph& graph,
                                           const compiler::Op& op) {
  return make_for<BiasGradient, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
