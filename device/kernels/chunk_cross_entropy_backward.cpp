#include <algorithm>
#include <type_traits>

#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/panel_cross_entropy.h"

namespace l2l::device::kernels {
namespace {

// The second pass of a head in vocabulary chunks: makes the chunk's logits again and turns them into gradients.
template <typename T>
class ChunkCrossEntropyBackward final : public Kernel {
 public:
  ChunkCrossEntropyBackward(const OpView& op)
      : hidden_(op.input(0).shape[1]),
        numbers_(op.input(3).shape[1]),
        bias_(op.inputs.size() > 4),
        dx_sums_(op.inputs.size()),
        pass_("chunk_cross_entropy_backward", LogitPanels::narrow(op.input(0).shape[0], op.input(1).shape[0]), hidden_,
              op.input(0).dtype, bias_, op.attributes.softcap),
        dx_(pass_.panels(),
            [&](std::int64_t m, std::int64_t tokens) { return dx_sum_shape(m, tokens, hidden_, op.input(0).dtype); }),
        dtable_(pass_.panels(), [&](std::int64_t m, std::int64_t tokens) {
          return dtable_shape(m, tokens, hidden_, op.input(0).dtype);
        }) {
    op.require_dtype(op.input(0).dtype, {1});
    op.require_dtype(DType::i32, {2});
    op.require_dtype(DType::f64, {3});
    op.require_dtype(DType::f32, {dx_sums_, dx_sums_ + 1});
    if (bias_) op.require_dtype(op.input(0).dtype, {4});
    if (bias_) op.require_dtype(DType::f32, {dx_sums_ + 2});
  }

  Bytes workspace(int threads) const override {
    return Workspace(*this, nullptr).used +
           std::max({pass_.product_workspace(threads), dx_.workspace(threads), dtable_.workspace(threads)});
  }

  void run(Operands operands, std::byte* base, const LaunchParameters& parameters, Workers& workers) const override {
    const Workspace workspace(*this, base);
    std::byte* const products = base + workspace.used;
    const LogitPanels& panels = pass_.panels();
    const LogitOperands logits{operands[0], operands[1], bias_ ? operands[4] : nullptr};
    for (std::int64_t chunk = 0; chunk < panels.rows.count(); ++chunk) {
      load_states(chunk, operands, workspace.softmax.states);
      for (std::int64_t part = 0; part < panels.tokens.count(); ++part) {
        pass_.make_logits(chunk, part, logits, workspace.softmax, products, workers);
        make_gradients(chunk, part, operands, parameters, workspace, workers);
        multiply_panel(chunk, part, operands, workspace, products, workers);
      }
    }
  }

 private:
  struct Workspace {
    SoftmaxPass::Buffers softmax;
    T* dlogits;  // one panel; in fp32 they replace the logits
    Bytes used;
    Workspace(const ChunkCrossEntropyBackward& kernel, std::byte* base) {
      WorkspaceCutter cutter(base);
      softmax = kernel.pass_.take(cutter);
      if constexpr (std::is_same_v<T, float>) {
        dlogits = softmax.logits;
      } else {
        dlogits = cutter.take<T>(kernel.pass_.panels().elements());
      }
      used = cutter.used();
    }
  };

  void load_states(std::int64_t chunk, Operands operands, RowState* states) const {
    const Partition& rows = pass_.panels().rows;
    const double* statistics = as<double>(operands[3]);
    for (std::int64_t row = rows.begin(chunk); row < rows.end(chunk); ++row) {
      *states++ = load_state(statistics + row * numbers_);
    }
  }

  void make_gradients(std::int64_t chunk, std::int64_t part, Operands operands, const LaunchParameters& parameters,
                      const Workspace& workspace, Workers& workers) const {
    const LogitPanels& panels = pass_.panels();
    const std::int64_t row = panels.rows.begin(chunk), token = panels.tokens.begin(part);
    differentiate_panel<T>(
        {panels.rows.end(chunk) - row, panels.tokens.end(part) - token, as<std::int32_t>(operands[2]) + row,
         parameters.first_token + token, workspace.softmax.states, parameters.loss_scale, pass_.softcap(),
         workspace.softmax.logits, workspace.dlogits, bias_ ? as<float>(operands[dx_sums_ + 2]) + token : nullptr},
        workers);
  }

  void multiply_panel(std::int64_t chunk, std::int64_t part, Operands operands, const Workspace& workspace,
                      std::byte* products, Workers& workers) const {
    const std::byte* dlogits = reinterpret_cast<const std::byte*>(workspace.dlogits);
    const std::int64_t row = pass_.panels().rows.begin(chunk) * hidden_;
    const std::int64_t token = pass_.panels().tokens.begin(part) * hidden_;
    const auto* x = reinterpret_cast<const std::byte*>(as<T>(operands[0]) + row);
    const auto* table = reinterpret_cast<const std::byte*>(as<T>(operands[1]) + token);
    auto* dx = reinterpret_cast<std::byte*>(as<float>(operands[dx_sums_]) + row);
    auto* dtable = reinterpret_cast<std::byte*>(as<float>(operands[dx_sums_ + 1]) + token);
    dx_.run(chunk, part, {dlogits, table, nullptr, dx}, products, workers);
    dtable_.run(chunk, part, {dlogits, x, nullptr, dtable}, products, workers);
  }

  std::int64_t hidden_, numbers_;
  bool bias_;
  std::size_t dx_sums_;  // operand; the other outputs follow
  SoftmaxPass pass_;
  PanelProduct dx_, dtable_;
};

}  // namespace

const Factory make_chunk_cross_entropy_backward = make_for_input<ChunkCrossEntropyBackward>;

}  // namespace l2l::device::kernels
