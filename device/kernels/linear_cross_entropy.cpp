#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/panel_cross_entropy.h"

namespace l2l::device::kernels {
namespace {

class LinearCrossEntropy final : public Kernel {
 public:
  LinearCrossEntropy(const OpView& op)
      : pass_("linear_cross_entropy", LogitPanels(op.input(0).shape[0], op.input(1).shape[0]), op.input(0).shape[1],
              op.input(0).dtype, op.inputs.size() > 3, op.attributes.softcap),
        bias_(op.inputs.size() > 3) {
    op.require_dtype(op.input(0).dtype, {1});
    op.require_dtype(DType::i32, {2});
    if (bias_) op.require_dtype(op.input(0).dtype, {3});
    op.require_dtype(DType::f64, {op.inputs.size()});
  }

  Bytes workspace(int threads) const override {
    WorkspaceCutter cutter;
    pass_.take(cutter);
    return cutter.used() + pass_.product_workspace(threads);
  }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
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

const Factory make_linear_cross_entropy = [](const OpView& op) -> std::unique_ptr<Kernel> {
  require_compute_type(op, op.input(0).dtype);
  return std::make_unique<LinearCrossEntropy>(op);
};

}  // namespace l2l::device::kernels
