// Counterpart of linear_cross_entropy.cpp. Beside the product, moves the logits twice: 8 bytes per row and token.
#include "device/kernels/cuda_factories.h"
#include "device/kernels/logit_pass.h"

namespace l2l::device::cuda {
namespace {

class LinearCrossEntropy final : public Kernel {
 public:
  LinearCrossEntropy(const Context& context, const OpView& op)
      : rows_(op.input(0).shape[0]),
        pass_(context, op, LogitPanels::parts(rows_, op.input(1).shape[0], context.logits), std::nullopt, false) {}

  bool capturable() const override { return !pass_.exchanges(); }
  Bytes workspace() const override { return cut(nullptr).used; }

  void enqueue(Operands operands, std::byte* base, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    const Workspace workspace = cut(base);
    const LogitOperands logits = pass_.logits_of(operands, workspace.statistics, parameters);
    for (std::int64_t chunk = 0; chunk < pass_.panels().rows.count(); ++chunk) {
      for (std::int64_t part = 0; part < pass_.panels().tokens.count(); ++part) {
        const SoftmaxStep step = part == 0 ? SoftmaxStep::begin : SoftmaxStep::add;
        pass_.run(chunk, part, step, logits, workspace.panel, stream);
      }
      if (pass_.exchanges()) pass_.merge(chunk, logits, workspace.panel, stream);
    }
    enqueue_loss(workspace.statistics, logits.targets, rows_, as<double>(operands.back()), stream);
  }

 private:
  struct Workspace {
    LogitPass::Buffers panel;
    double* statistics;  // of all rows
    Bytes used;
  };

  Workspace cut(std::byte* base) const {
    kernels::WorkspaceCutter cutter(base);
    const LogitPass::Buffers panel = pass_.take(cutter);
    double* const statistics = cutter.take<double>(rows_ * 3);
    return {panel, statistics, cutter.used()};
  }

  std::int64_t rows_;
  LogitPass pass_;
};

}  // namespace

const Factory make_linear_cross_entropy = make_one<LinearCrossEntropy>;

}  // namespace l2l::device::cuda
