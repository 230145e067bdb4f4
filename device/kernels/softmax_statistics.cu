// Counterpart of softmax_statistics.cpp. Beside the product, moves the logits twice: 8 bytes per row and token.
#include "device/kernels/cuda_factories.h"
#include "device/kernels/logit_pass.h"

namespace l2l::device::cuda {
namespace {

using kernels::as;
using kernels::input;

class SoftmaxStatistics final : public Kernel {
 public:
  SoftmaxStatistics(const Context& context, const compiler::Graph& graph, const compiler::Op& op)
      : bias_(op.inputs.size() > 3),
        pass_(context, graph, op,
              LogitPanels::parts(input(graph, op, 0).shape[0], input(graph, op, 1).shape[0], context.logits),
              std::nullopt, true) {}

  Bytes workspace() const override {
    kernels::WorkspaceCutter cutter;
    pass_.take(cutter);
    return cutter.used();
  }

  void enqueue(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    kernels::WorkspaceCutter cutter(workspace);
    const LogitPass::Buffers buffers = pass_.take(cutter);
    const LogitOperands logits{operands[0],
                               operands[1],
                               bias_ ? operands[3] : nullptr,
                               as<std::int32_t>(operands[2]),
                               as<double>(operands[bias_ ? 4 : 3]),
                               parameters};
    for (std::int64_t chunk = 0; chunk < pass_.panels().rows.count(); ++chunk) {
      for (std::int64_t part = 0; part < pass_.panels().tokens.count(); ++part) {
        pass_.run(chunk, part, SoftmaxStep::add, logits, buffers, stream);
      }
    }
  }

 private:
  bool bias_;
  LogitPass pass_;
};

}  // namespace

std::unique_ptr<Kernel> make_softmax_statistics(const Context& context, const compiler::Graph& graph,
                                                const compiler::Op& op) {
  return std::make_unique<SoftmaxStatistics>(context, graph, op);
}

}  // namespace l2l::device::cuda
