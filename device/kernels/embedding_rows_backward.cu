#include "device/kernels/cuda_factories.h"
#include "device/kernels/table_gradient.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
class EmbeddingRowsBackward final : public Kernel {
 public:
  EmbeddingRowsBackward(const Context&, const OpView& op)
      : table_(op.input(1).shape[0], op.input(1).shape[1], {op.output(0).shape[0], op.attributes.first},
               rounded_to(op.input(1).dtype, op.attributes.factor)) {}

  Bytes workspace() const override { return table_.workspace(); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    table_.enqueue(as<std::int32_t>(operands[0]), as<T>(operands[1]), as<float>(operands[2]), parameters, workspace,
                   stream);
  }

 private:
  TableGradientSum<T, true> table_;
};

}  // namespace

const Factory make_embedding_rows_backward = make_for_input<EmbeddingRowsBackward, 1>;

}  // namespace l2l::device::cuda
