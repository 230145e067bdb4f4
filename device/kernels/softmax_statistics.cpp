#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/panel_cross_entropy.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

constexpr std::int64_t kNumbers = 3;  // per row

class SoftmaxStatistics final : public Kernel {
 public:
  SoftmaxStatistics(const OpView& op)
      : vocabulary_(op.attributes.vocabulary),
        pass_("softmax_statistics", LogitPanels::narrow(op.input(0).shape[0], op.input(1).shape[0]),
              op.input(0).shape[1], op.input(0).dtype, op.inputs.size() > 3, op.attributes.softcap),
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

  void run(Operands operands, std::byte* workspace, const LaunchParameters& parameters,
           Workers& workers) const override {
    WorkspaceCutter cutter(workspace);
    const SoftmaxPass::Buffers buffers = pass_.take(cutter);
    const std::int32_t* targets = as<std::int32_t>(operands[2]);
    double* statistics = as<double>(operands.back());
    const LogitOperands logits{operands[0], operands[1], bias_ ? operands[3] : nullptr};
    const Partition& rows = pass_.panels().rows;
    for (std::int64_t chunk = 0; chunk < rows.count(); ++chunk) {
      const std::int64_t first = rows.begin(chunk);
      for (std::int64_t row = first; row < rows.end(chunk); ++row) {
        if (targets[row] >= vocabulary_) throw_bad_token("softmax_statistics", targets[row], row, vocabulary_);
        buffers.states[row - first] = load_state(statistics + row * kNumbers);
      }
      pass_.take_table(chunk, logits, targets, parameters.first_token, buffers, workspace + cutter.used(), workers);
      for (std::int64_t row = first; row < rows.end(chunk); ++row) {
        if (targets[row] >= 0) store_state(buffers.states[row - first], statistics + row * kNumbers);
      }
    }
  }

 private:
  std::int64_t vocabulary_;
  SoftmaxPass pass_;
  bool bias_;
};

}  // namespace

const Factory make_softmax_statistics = [](const OpView& op) -> std::unique_ptr<Kernel> {
  require_compute_type(op, op.input(0).dtype);
  return std::make_unique<SoftmaxStatistics>(op);
};

}  // namespace l2l::device::kernels
