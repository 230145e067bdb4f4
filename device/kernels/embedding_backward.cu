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
        outputs_(op.inputs.size()),
        places_(op.input(1).shape[0], op.input(1).shape[1], op.output(1).shape[0]),
        table_(op.input(1).shape[0], op.input(1).shape[1], op.output(0).shape[0]) {}

  // The second sum begins when the first is done.
  Bytes workspace() const override {
    return outputs_ > 2 ? std::max(table_.workspace(), places_.workspace()) : table_.workspace();
  }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    const T* const dy = as<T>(operands[1]);
    table_.enqueue(as<std::int32_t>(operands[0]), dy, as<float>(operands[outputs_]), parameters, workspace, stream);
    float* const dpositions = as<float>(operands.back());
    if (outputs_ > 2) {
      places_.enqueue(as<std::int32_t>(operands[2]), dy, dpositions, parameters, workspace, stream);
    } else {
      launch_positions_backward(context_, dy, elements_, positions_, dpositions, stream);
    }
  }

 private:
  Context context_;
  std::int64_t elements_, positions_;
  std::size_t outputs_;                // operands from there on; places may come before them
  TableGradientSum<T, false> places_;  // for a row of positions of each row's own
  TableGradientSum<T, false> table_;
};

}  // namespace

const Factory make_embedding_backward = make_for_input<EmbeddingBackward, 1>;

}  // namespace l2l::device::cuda
