// Counterpart of linear_cross_entropy_backward.cpp. Where enough whole rows of logits fit into Context::logits, one
// pass makes them and turns them into gradients; otherwise a first pass over parts of the vocabulary finds the
// statistics, and a second makes the logits again. Besides x, table and dx, moves 12 bytes per row and token (16 in two
// passes) and three times the size of the compute dtype, and the table's gradient, f32, twice per chunk of rows.
#include "device/kernels/cuda_factories.h"
#include "device/kernels/logit_pass.h"

namespace l2l::device::cuda {
namespace {

class LinearCrossEntropyBackward final : public Kernel {
 public:
  LinearCrossEntropyBackward(const Context& context, const OpView& op)
      : LinearCrossEntropyBackward(context, op, panels_of(op, context.logits)) {}

  bool capturable() const override { return !pass_.exchanges(); }
  Bytes workspace() const override { return cut(nullptr).used; }

  void enqueue(Operands operands, std::byte* base, const LaunchParameters* parameters,
               cudaStream_t stream) const override {
    const Workspace workspace = cut(base);
    const Run run{pass_.logits_of(operands, workspace.statistics, parameters),
                  workspace,
                  operands[loss_ + 1],
                  trained_ > 0 ? as<float>(operands[loss_ + 2]) : nullptr,
                  trained_ > 1 ? as<float>(operands[loss_ + 3]) : nullptr,
                  stream};
    for (std::int64_t chunk = 0; chunk < pass_.panels().rows.count(); ++chunk) {
      several_parts_ ? take_parts(run, chunk) : take_whole(run, chunk);
    }
    enqueue_loss(workspace.statistics, run.logits.targets, rows_, as<double>(operands[loss_]), stream);
  }

 private:
  struct Workspace {
    LogitPass::Buffers panel;
    double* statistics;  // of all rows
    float* dx;           // sums of one chunk over the parts; null when dx itself holds them
    Bytes used;
  };

  struct Run {
    LogitOperands logits;
    Workspace workspace;
    std::byte* dx;
    float *dtable, *dbias;  // null where frozen
    cudaStream_t stream;
  };

  static LogitPanels panels_of(const OpView& op, Bytes limit) {
    const std::int64_t rows = op.input(0).shape[0], own = op.input(1).shape[0], count = op.attributes.shard.count;
    if (count == 1) return LogitPanels::whole_rows(rows, own, limit);
    return LogitPanels::of_share(rows, compiler::largest_token_share(op.attributes.vocabulary, count), own, limit);
  }

  LinearCrossEntropyBackward(const Context& context, const OpView& op, const LogitPanels& panels)
      : dtype_(op.input(0).dtype),
        rows_(op.input(0).shape[0]),
        hidden_(op.input(0).shape[1]),
        loss_(op.inputs.size()),
        trained_(op.outputs.size() - 2),
        several_parts_(panels.tokens.count() > 1),
        pass_(context, op, panels, several_parts_ ? DType::f32 : dtype_, false) {}

  Workspace cut(std::byte* base) const {
    kernels::WorkspaceCutter cutter(base);
    Workspace workspace{};
    workspace.panel = pass_.take(cutter);
    workspace.statistics = cutter.take<double>(rows_ * 3);
    if (separate_sums()) workspace.dx = cutter.take<float>(pass_.panels().rows.size * hidden_);
    workspace.used = cutter.used();
    return workspace;
  }

  bool separate_sums() const { return several_parts_ && dtype_ != DType::f32; }

  std::byte* dx_of(const Run& run, std::int64_t chunk) const {
    return run.dx + static_cast<Bytes>(pass_.panels().rows.begin(chunk) * hidden_) * size_of(dtype_);
  }

  void take_whole(const Run& run, std::int64_t chunk) const {
    const LogitPass::Buffers& panel = run.workspace.panel;
    if (pass_.exchanges()) {
      pass_.run(chunk, 0, SoftmaxStep::begin, run.logits, panel, run.stream);
      pass_.merge(chunk, run.logits, panel, run.stream);
      pass_.softmax(chunk, 0, SoftmaxStep::differentiate, run.logits, panel, run.stream);
    } else {
      pass_.run(chunk, 0, SoftmaxStep::both, run.logits, panel, run.stream);
    }
    pass_.multiply(chunk, 0, run.logits, {dx_of(run, chunk), false, run.dtable, run.dbias}, run.workspace.panel,
                   run.stream);
  }

  void take_parts(const Run& run, std::int64_t chunk) const {
    const std::int64_t parts = pass_.panels().tokens.count();
    for (std::int64_t part = 0; part < parts; ++part) {
      const SoftmaxStep step = part == 0 ? SoftmaxStep::begin : SoftmaxStep::add;
      pass_.run(chunk, part, step, run.logits, run.workspace.panel, run.stream);
    }
    if (pass_.exchanges()) pass_.merge(chunk, run.logits, run.workspace.panel, run.stream);
    std::byte* const dx = dx_of(run, chunk);
    std::byte* const sums = separate_sums() ? reinterpret_cast<std::byte*>(run.workspace.dx) : dx;
    for (std::int64_t part = 0; part < parts; ++part) {
      pass_.run(chunk, part, SoftmaxStep::differentiate, run.logits, run.workspace.panel, run.stream);
      pass_.multiply(chunk, part, run.logits, {sums, part > 0, run.dtable, run.dbias}, run.workspace.panel, run.stream);
    }
    if (!separate_sums()) return;
    enqueue_narrow(dtype_, run.workspace.dx, dx, pass_.panels().rows_of(chunk) * hidden_, run.stream);
  }

  DType dtype_;
  std::int64_t rows_, hidden_;
  std::size_t loss_;     // operand; the other outputs follow
  std::size_t trained_;  // of table and bias
  bool several_parts_;
  LogitPass pass_;
};

}  // namespace

const Factory make_linear_cross_entropy_backward = make_one<LinearCrossEntropyBackward>;

}  // namespace l2l::device::cuda
