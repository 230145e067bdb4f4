// Counterpart of chunk_cross_entropy_backward.cpp: makes the chunk's logits again and turns them into gradients. Beside
// the products' operands, moves the logits twice and the dlogits three times, and dx and the table's gradient, f32,
// twice per panel.
#include "device/kernels/cuda_factories.h"
#include "device/kernels/logit_pass.h"

namespace l2l::device::cuda {
namespace {

class ChunkCrossEntropyBackward final : public Kernel {
 public:
  ChunkCrossEntropyBackward(const Context& context, const OpView& op)
      : hidden_(op.input(0).shape[1]),
        dx_(op.inputs.size()),
        trained_(op.outputs.size() - 1),
        pass_(context, op, LogitPanels::parts(op.input(0).shape[0], op.input(1).shape[0], context.logits), DType::f32,
              true, 4) {}

  Bytes workspace() const override {
    kernels::WorkspaceCutter cutter;
    pass_.take(cutter);
    return cutter.used();
  }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    kernels::WorkspaceCutter cutter(workspace);
    const LogitPass::Buffers buffers = pass_.take(cutter);
    const LogitOperands logits = pass_.logits_of(operands, as<double>(operands[3]), parameters);
    for (std::int64_t chunk = 0; chunk < pass_.panels().rows.count(); ++chunk) {
      float* const sums = as<float>(operands[dx_]) + pass_.panels().rows.begin(chunk) * hidden_;
      const LogitGradients gradients{reinterpret_cast<std::byte*>(sums), true,
                                     trained_ > 0 ? as<float>(operands[dx_ + 1]) : nullptr,
                                     trained_ > 1 ? as<float>(operands[dx_ + 2]) : nullptr};
      for (std::int64_t part = 0; part < pass_.panels().tokens.count(); ++part) {
        pass_.run(chunk, part, SoftmaxStep::differentiate, logits, buffers, stream);
        pass_.multiply(chunk, part, logits, gradients, buffers, stream);
      }
    }
  }

 private:
  std::int64_t hidden_;
  std::size_t dx_;       // operand; the other outputs follow
  std::size_t trained_;  // of table and bias
  LogitPass pass_;
};

}  // namespace

const Factory make_chunk_cross_entropy_backward = make_one<ChunkCrossEntropyBackward>;

}  // namespace l2l::device::cuda
