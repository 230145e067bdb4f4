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
        pass_(op, LogitPanels::narrow(op.input(0).shape[0], op.input(1).shape[0])) {
    op.require_dtype(DType::f64, {op.inputs.size()});
  }

  Bytes workspace(int threads) const override {
    WorkspaceCutter cutter;
    pass_.take(cutter);
    return cutter.used() + pass_.product_workspace(threads);
  }

  void prepare(int threads) override { pass_.prepare(threads); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters& parameters,
           Workers& workers) const override {
    WorkspaceCutter cutter(workspace);
    const SoftmaxPass::Buffers buffers = pass_.take(cutter);
    double* statistics = as<double>(operands.back());
    const LogitOperands logits = pass_.logits_of(operands, parameters.first_token);
    const std::int32_t* targets = logits.targets;
    const Partition& rows = pass_.panels().rows;
    for (std::int64_t chunk = 0; chunk < rows.count(); ++chunk) {
      const std::int64_t first = rows.begin(chunk);
      for (std::int64_t row = first; row < rows.end(chunk); ++row) {
        if (targets[row] >= vocabulary_) throw_bad_token("softmax_statistics", targets[row], row, vocabulary_);
        buffers.states[row - first] = load_state(statistics + row * kNumbers);
      }
      pass_.take_table(chunk, logits, buffers, workspace + cutter.used(), workers);
      for (std::int64_t row = first; row < rows.end(chunk); ++row) {
        if (targets[row] >= 0) store_state(buffers.states[row - first], statistics + row * kNumbers);
      }
    }
  }

 private:
  std::int64_t vocabulary_;
  SoftmaxPass pass_;
};

}  // namespace

const Factory make_softmax_statistics = make_one<SoftmaxStatistics>;

}  // namespace l2l::device::kernels
