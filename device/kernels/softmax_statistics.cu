// Counterpart of softmax_statistics.cpp. Beside the product, moves the logits twice: 8 bytes per row and token.
#include "device/kernels/cuda_factories.h"
#include "device/kernels/logit_pass.h"

namespace l2l::device::cuda {
namespace {

class SoftmaxStatistics final : public Kernel {
 public:
  SoftmaxStatistics(const Context& context, const OpView& op)
      : pass_(context, op, LogitPanels::parts(op.input(0).shape[0], op.input(1).shape[0], context.logits), std::nullopt,
              true) {}

  Bytes workspace() const override {
    kernels::WorkspaceCutter cutter;
    pass_.take(cutter);
    return cutter.used();
  }

  void enqueue(Operands operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    kernels::WorkspaceCutter cutter(workspace);
    const LogitPass::Buffers buffers = pass_.take(cutter);
    const LogitOperands logits = pass_.logits_of(operands, as<double>(operands.back()), parameters);
    for (std::int64_t chunk = 0; chunk < pass_.panels().rows.count(); ++chunk) {
      for (std::int64_t part = 0; part < pass_.panels().tokens.count(); ++part) {
        pass_.run(chunk, part, SoftmaxStep::add, logits, buffers, stream);
      }
    }
  }

 private:
  LogitPass pass_;
};

}  // namespace

const Factory make_softmax_statistics = make_one<SoftmaxStatistics>;

}  // namespace l2l::device::cuda
