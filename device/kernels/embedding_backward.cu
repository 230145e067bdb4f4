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
  EmbeddingBackward(const Context& context, const OpView& op)
      : context_(context),
        elements_(op.input(1).shape.elements()),
        positions_(op.attributes.sequence * op.input(1).shape[1]),
        table_(op.input(1).shape[0], op.input(1).shape[1], op.output(0).shape[0]) {}

  Bytes workspace() const override { return table_.workspace(); }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    const T* const dy = as<T>(operands[1]);
    table_.enqueue(as<std::int32_t>(operands[0]), dy, as<float>(operands[2]), parameters, workspace, stream);
    launch_positions_backward(context_, dy, elements_, positions_, as<float>(operands[3]), stream);
  }

 private:
  Context context_;
  std::int64_t elements_, positions_;
  TableGradientSum<T, false> table_;
};

}  // namespace

const Factory make_embedding_backward = make_for_input<EmbeddingBackward, 1>;

}  // namespace l2l::device::cuda
