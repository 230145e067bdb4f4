#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/panel_cross_entropy.h"

namespace l2l::device::kernels {
namespace {

class LinearCrossEntropy final : public Kernel {
 public:
  LinearCrossEntropy(const compiler::Graph& graph, const compiler::Op& op)
      : pass_("linear_cross_entropy", LogitPanels(input(graph, op, 0).shape[0], input(graph, op, 1).shape[0]),
              input(graph, op, 0).shape[1], input(graph, op, 0).dtype, op.inputs.size() > 3, op.attributes.softcap),
        bias_(op.inputs.size() > 3) {
    require_dtype(graph, op, input(graph, op, 0).dtype, {1});
    require_dtype(graph, op, DType::i32, {2});
    if (bias_) require_dtype(graph, op, input(graph, op, 0).dtype, {3});
    require_dtype(graph, op, DType::f64, {op.inputs.size()});
  }

  Bytes workspace(int threads) const override {
    WorkspaceCutter cutter;
    pass_.take(cutter);
    return cutter.used() + pass_.product_workspace(threads);
  }

  void run(std::span<std::byte* const> operands, std::byte* workspace, const LaunchParameters&,
           Workers& workers) const override {
    WorkspaceCutter cutter(workspace);
    const SoftmaxPass::Buffers buffers = pass_.take(cutter);
    const LogitOperands logits{operands[0], operands[1], bias_ ? operands[3] : nullptr};
    for (std::int64_t chunk = 0; chunk < pass_.panels().rows.count(); ++chunk) {
      pass_.run(chunk, logits, as<std::int32_t>(operands[2]), buffers, workspace + cutter.used(), workers);
    }
    *as<double>(operands.back()) = pass_.total(buffers);
  }

 private:
  SoftmaxPass pass_;
  bool bias_;
};

}  // namespace

std::unique_ptr<Kernel> make_linear_cross_entropy(const compiler::Graph& graph, const compiler::Op& op) {
  require_compute_type(op, input(graph, op, 0).dtype);
  return std::make_unique<LinearCrossEntropy>(graph, op);
}

}  // namespace l2l::device::kernels
