#include <algorithm>
#include <type_traits>

#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/panel_cross_entropy.h"

namespace l2l::device::kernels {
namespace {

// Two passes: the first finds each row's softmax state, the second makes the logits again (unless there is one part)
// and turns them into gradients. Of one part, dx is written at once, in its own type.
template <typename T>
class LinearCrossEntropyBackward final : public Kernel {
 public:
  LinearCrossEntropyBackward(const OpView& op) : LinearCrossEntropyBackward(op, LogitPanels::of_share(op)) {
    op.require_dtype(op.input(0).dtype, {loss_ + 1});
    op.require_dtype(DType::f64, {loss_});
    for (std::size_t i = loss_ + 2; i < loss_ + op.outputs.size(); ++i) op.require_dtype(DType::f32, {i});
  }

  Bytes workspace(int threads) const override {
    return Workspace(*this, nullptr).used + pass_.product_workspace(threads);
  }

  void prepare(int threads) override { pass_.prepare(threads); }

  void run(Operands operands, std::byte* base, const LaunchParameters& parameters, Workers& workers) const override {
    const Workspace workspace(*this, base);
    std::byte* const products = base + workspace.used;
    const SoftmaxPass& softmax = pass_.softmax();
    const LogitPanels& panels = softmax.panels();
    const LogitOperands logits = softmax.logits_of(operands, first_token_);
    for (std::int64_t chunk = 0; chunk < panels.rows.count(); ++chunk) {
      softmax.run(chunk, logits, workspace.buffers.softmax, products, workers);
      const std::int64_t first = panels.rows.begin(chunk) * hidden_, count = panels.rows.end(chunk) * hidden_ - first;
      T* const dx = as<T>(operands[loss_ + 1]) + first;
      const typename GradientPass<T>::Gradients gradients{
          workspace.dx ? reinterpret_cast<std::byte*>(workspace.dx) : reinterpret_cast<std::byte*>(dx),
          trained_ > 0 ? as<float>(operands[loss_ + 2]) : nullptr,
          trained_ > 1 ? as<float>(operands[loss_ + 3]) : nullptr, parameters.loss_scale};
      if (several_) std::fill_n(reinterpret_cast<float*>(gradients.dx), count, 0.0f);
      for (std::int64_t part = 0; part < panels.tokens.count(); ++part) {
        if (several_) softmax.make_logits(chunk, part, logits, workspace.buffers.softmax, products, workers);
        pass_.run(chunk, part, logits, workspace.buffers, gradients, products, workers);
      }
      if (workspace.dx) narrow_row(workspace.dx, dx, count);
    }
    *as<double>(operands[loss_]) = softmax.total(workspace.buffers.softmax);
  }

 private:
  struct Workspace {
    typename GradientPass<T>::Buffers buffers;
    float* dx = nullptr;  // sums of one chunk over the parts; null when dx itself holds them
    Bytes used;
    Workspace(const LinearCrossEntropyBackward& kernel, std::byte* base) {
      WorkspaceCutter cutter(base);
      buffers = kernel.pass_.take(cutter);
      if (kernel.several_ && !std::is_same_v<T, float>) {
        dx = cutter.take<float>(kernel.pass_.softmax().panels().rows.size * kernel.hidden_);
      }
      used = cutter.used();
    }
  };

  LinearCrossEntropyBackward(const OpView& op, const LogitPanels& panels)
      : hidden_(op.input(0).shape[1]),
        first_token_(op.attributes.first),
        loss_(op.inputs.size()),
        trained_(op.outputs.size() - 2),
        several_(panels.tokens.count() > 1),
        pass_(op, panels, 3, several_) {}

  std::int64_t hidden_, first_token_;
  std::size_t loss_;     // operand; the other outputs follow
  std::size_t trained_;  // of table and bias
  bool several_;         // parts of the vocabulary
  GradientPass<T> pass_;
};

}  // namespace

const Factory make_linear_cross_entropy_backward = make_for_input<LinearCrossEntropyBackward>;

}  // namespace l2l::device::kernels
