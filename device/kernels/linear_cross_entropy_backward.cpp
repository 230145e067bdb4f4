#include <algorithm>
#include <type_traits>

#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/panel_cross_entropy.h"

namespace l2l::device::kernels {
namespace {

// Of one part, dx is written at once, in its own type.
MatmulShape dx_shape(std::int64_t rows, std::int64_t tokens, std::int64_t hidden, DType dtype, bool several) {
  MatmulShape shape = dx_sum_shape(rows, tokens, hidden, dtype);
  shape.output = several ? DType::f32 : dtype;
  shape.accumulate = several;
  return shape;
}

// Two passes: the first finds each row's softmax state, the second makes the logits again (unless there is one part)
// and turns them into gradients.
template <typename T>
class LinearCrossEntropyBackward final : public Kernel {
 public:
  LinearCrossEntropyBackward(const OpView& op)
      : LinearCrossEntropyBackward(op.input(0).shape[0], op.input(0).shape[1], op.input(1).shape[0], op.input(0).dtype,
                                   op.inputs.size() > 3, op.attributes.softcap) {
    op.require_dtype(op.input(0).dtype, {1, loss_ + 1});
    op.require_dtype(DType::i32, {2});
    op.require_dtype(DType::f64, {loss_});
    op.require_dtype(DType::f32, {loss_ + 2});
    if (bias_) op.require_dtype(op.input(0).dtype, {3});
    if (bias_) op.require_dtype(DType::f32, {loss_ + 3});
  }

  Bytes workspace(int threads) const override {
    return Workspace(*this, nullptr).used +
           std::max({pass_.product_workspace(threads), dx_.workspace(threads), dtable_.workspace(threads)});
  }

  void run(Operands operands, std::byte* base, const LaunchParameters& parameters, Workers& workers) const override {
    const Run run{{operands[0], operands[1], bias_ ? operands[3] : nullptr},
                  as<std::int32_t>(operands[2]),
                  as<T>(operands[loss_ + 1]),
                  as<float>(operands[loss_ + 2]),
                  bias_ ? as<float>(operands[loss_ + 3]) : nullptr,
                  Workspace(*this, base),
                  base + Workspace(*this, base).used,
                  parameters.loss_scale,
                  workers};
    for (std::int64_t chunk = 0; chunk < pass_.panels().rows.count(); ++chunk) {
      pass_.run(chunk, run.logits, run.targets, run.workspace.softmax, run.products, workers);
      differentiate_chunk(run, chunk);
    }
    *as<double>(operands[loss_]) = pass_.total(run.workspace.softmax);
  }

 private:
  struct Workspace {
    SoftmaxPass::Buffers softmax;
    T* dlogits;  // one panel; in fp32 they replace the logits
    float* dx;   // sums of one chunk over the parts; null when dx itself holds them
    Bytes used;
    Workspace(const LinearCrossEntropyBackward& kernel, std::byte* base) {
      WorkspaceCutter cutter(base);
      softmax = kernel.pass_.take(cutter);
      dx = nullptr;
      if constexpr (std::is_same_v<T, float>) {
        dlogits = softmax.logits;
      } else {
        dlogits = cutter.take<T>(kernel.pass_.panels().elements());
        if (kernel.several_) dx = cutter.take<float>(kernel.pass_.panels().rows.size * kernel.hidden_);
      }
      used = cutter.used();
    }
  };

  struct Run {
    LogitOperands logits;
    const std::int32_t* targets;
    T* dx;
    float* dtable;
    float* dbias;  // null without
    Workspace workspace;
    std::byte* products;
    float loss_scale;
    Workers& workers;
  };

  LinearCrossEntropyBackward(std::int64_t rows, std::int64_t hidden, std::int64_t vocabulary, DType dtype, bool bias,
                             float softcap)
      : hidden_(hidden),
        bias_(bias),
        loss_(bias ? 4 : 3),
        pass_("linear_cross_entropy_backward", LogitPanels(rows, vocabulary), hidden, dtype, bias, softcap),
        several_(pass_.panels().tokens.count() > 1),
        dx_(pass_.panels(),
            [&](std::int64_t m, std::int64_t tokens) { return dx_shape(m, tokens, hidden, dtype, several_); }),
        dtable_(pass_.panels(),
                [&](std::int64_t m, std::int64_t tokens) { return dtable_shape(m, tokens, hidden, dtype); }) {}

  void differentiate_chunk(const Run& run, std::int64_t chunk) const {
    const Partition& rows = pass_.panels().rows;
    const std::int64_t first = rows.begin(chunk) * hidden_, count = rows.end(chunk) * hidden_ - first;
    T* dx = run.dx + first;
    std::byte* sums = reinterpret_cast<std::byte*>(dx);
    if (run.workspace.dx) sums = reinterpret_cast<std::byte*>(run.workspace.dx);
    if (several_) std::fill_n(reinterpret_cast<float*>(sums), count, 0.0f);
    for (std::int64_t part = 0; part < pass_.panels().tokens.count(); ++part) {
      if (several_) {
        pass_.make_logits(chunk, part, run.logits, run.workspace.softmax, run.products, run.workers);
      }
      make_gradients(run, chunk, part);
      multiply_panel(run, chunk, part, sums);
    }
    if (run.workspace.dx) narrow_row(run.workspace.dx, dx, count);
  }

  void multiply_panel(const Run& run, std::int64_t chunk, std::int64_t part, std::byte* dx) const {
    const std::byte* dlogits = reinterpret_cast<const std::byte*>(run.workspace.dlogits);
    const std::int64_t token = pass_.panels().tokens.begin(part) * hidden_;
    const std::byte* table = run.logits.table + static_cast<Bytes>(token) * sizeof(T);
    const std::byte* x = run.logits.x + static_cast<Bytes>(pass_.panels().rows.begin(chunk) * hidden_) * sizeof(T);
    auto* dtable = reinterpret_cast<std::byte*>(run.dtable + token);
    dx_.run(chunk, part, {dlogits, table, nullptr, dx}, run.products, run.workers);
    dtable_.run(chunk, part, {dlogits, x, nullptr, dtable}, run.products, run.workers);
  }

  void make_gradients(const Run& run, std::int64_t chunk, std::int64_t part) const {
    const LogitPanels& panels = pass_.panels();
    const std::int64_t row = panels.rows.begin(chunk), token = panels.tokens.begin(part);
    differentiate_panel<T>({panels.rows.end(chunk) - row, panels.tokens.end(part) - token, run.targets + row, token,
                            run.workspace.softmax.states, run.loss_scale, pass_.softcap(), run.workspace.softmax.logits,
                            run.workspace.dlogits, bias_ ? run.dbias + token : nullptr},
                           run.workers);
  }

  std::int64_t hidden_;
  bool bias_;
  std::size_t loss_;  // operand; the other outputs follow
  SoftmaxPass pass_;
  bool several_;  // parts of the vocabulary
  PanelProduct dx_, dtable_;
};

}  // namespace

const Factory make_linear_cross_entropy_backward = make_for_input<LinearCrossEntropyBackward>;

}  // namespace l2l::device::kernels
