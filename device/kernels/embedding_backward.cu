#include "device/kernels/cuda_factories.h"
#include "device/kernels/positions.cuh"

namespace l2l::device::cuda {
namespace {

// Tokens outside the vocabulary have no gradient (and made the loss NaN). Reads dy twice: for the table, and for the
// positions.
template <typename T>
class EmbeddingBackward final : public Kernel {
 public:
  EmbeddingBackward(const Context&, const OpView& op)
      : first_output_(op.inputs.size()),
        table_(op.input(1).shape[0], op.input(1).shape[1], {op.output(0).shape[0]}),
        positions_(op, 1) {}

  // The second sum begins when the first is done.
  Bytes workspace() const override { return std::max(table_.workspace(), positions_.workspace()); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    table_.enqueue(as<std::int32_t>(operands[0]), as<T>(operands[1]), as<float>(operands[first_output_]), parameters,
                   workspace, stream);
    positions_.enqueue(operands, workspace, parameters, stream);
  }

 private:
  std::size_t first_output_;  // operand
  TableGradientSum<T, false> table_;
  PositionsGradient<T> positions_;
};

}  // namespace

const Factory make_embedding_backward = make_for_input<EmbeddingBackward, 1>;

}  // namespace l2l::device::cuda
