#include "device/kernels/cuda_factories.h"
#include "device/kernels/positions.cuh"
#include "device/kernels/table_gradient.cuh"

namespace l2l::device::cuda {
namespace {

// Tokens outside the vocabulary have no gradient (and made the loss NaN). Reads dy twice: for the table, and for the
// positions.
template <typename T>
class EmbeddingBackward final : public Kernel {
 public:
  EmbeddingBackward(const Context& context, const compiler::Graph& graph, const compiler::Op& op)
      : context_(context),
        elements_(kernels::input(graph, op, 1).shape.elements()),
        positions_(op.attributes.sequence * kernels::input(graph, op, 1).shape[1]),
        table_(kernels::input(graph, op, 1).shape[0], kernels::input(graph, op, 1).shape[1],
               kernels::output(graph, op, 0).shape[0]) {}

  Bytes workspace() const override { return table_.workspace(); }

  void enqueue(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    const T* const dy = kernels::as<T>(operands[1]);
    table_.enqueue(kernels::as<std::int32_t>(operands[0]), dy, kernels::as<float>(operands[2]), parameters, workspace,
                   stream);
    launch_positions_backward(context_, dy, elements_, positions_, kernels::as<float>(operands[3]), stream);
  }

 private:
  Context context_;
  std::int64_t elements_, positions_;
  TableGradientSum<T, false> table_;
};

}  // namespace

std::unique_ptr<Kernel> make_embedding_backward(const Context& context, const compiler::Graph& graph,
                                                const compiler::Op& op) {
  return make_for<EmbeddingBackward, Kernel>(kernels::input(graph, op, 1).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
