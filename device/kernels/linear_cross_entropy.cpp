#include "device/kernels/factories.h"
#include "device/kernels/panel_cross_entropy.h"

namespace l2l::device::kernels {
namespace {

class LinearCrossEntropy final : public Kernel {
 public:
  LinearCrossEntropy(const OpView& op) : first_token_(op.attributes.first), pass_(op, LogitPanels::of_share(op)) {
    op.require_dtype(DType::f64, {op.inputs.size()});
  }

  Bytes workspace(int threads) const override {
    WorkspaceCutter cutter;
    pass_.take(cutter);
    return cutter.used() + pass_.product_workspace(threads);
  }

  void prepare(int threads) override { pass_.prepare(threads); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    WorkspaceCutter cutter(workspace);
    const SoftmaxPass::Buffers buffers = pass_.take(cutter);
    const LogitOperands logits = pass_.logits_of(operands, first_token_);
    for (std::int64_t chunk = 0; chunk < pass_.panels().rows.count(); ++chunk) {
      pass_.run(chunk, logits, buffers, workspace + cutter.used(), workers);
    }
    *as<double>(operands.back()) = pass_.total(buffers);
  }

 private:
  std::int64_t first_token_;
  SoftmaxPass pass_;
};

}  // namespace

const Factory make_linear_cross_entropy = make_one<LinearCrossEntropy>;

}  // namespace l2l::device::kernels
