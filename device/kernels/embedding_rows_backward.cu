#include "device/kernels/cuda_factories.h"
#include "device/kernels/table_gradient.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
class EmbeddingRowsBackward final : public Kernel {
 public:
  EmbeddingRowsBackward(const Context&, const compiler::Graph& graph, const compiler::Op& op)
      : table_(kernels::input(graph, op, 1).shape[0], kernels::input(graph, op, 1).shape[1],
               kernels::output(graph, op, 0).shape[0],
               kernels::rounded_to(kernels::input(graph, op, 1).dtype, op.attributes.factor)) {}

  Bytes workspace() const override { return table_.workspace(); }

  void enqueue(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    table_.enqueue(kernels::as<std::int32_t>(operands[0]), kernels::as<T>(operands[1]), kernels::as<float>(operands[2]),
                   parameters, workspace, stream);
  }

 private:
  TableGradientSum<T, true> table_;
};

}  // namespace

std::unique_ptr<Kernel> make_embedding_rows_backward(const Context& context, const compiler::Graph& graph,
                                                     const compiler::Op& op) {
  return make_for<EmbeddingRowsBackward, Kernel>(kernels::input(graph, op, 1).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
