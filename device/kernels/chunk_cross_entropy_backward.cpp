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
        dx_(op.inputs.size()),
        trained_(op.outputs.size() - 1),
        pass_(op, LogitPanels::narrow(op.input(0).shape[0], op.input(1).shape[0]), 4, /*sum_dx=*/true) {
    op.require_dtype(DType::f64, {3});
    for (std::size_t i = dx_; i < dx_ + op.outputs.size(); ++i) op.require_dtype(DType::f32, {i});
  }

  Bytes workspace(int threads) const override {
    WorkspaceCutter cutter;
    pass_.take(cutter);
    return cutter.used() + pass_.product_workspace(threads);
  }

  void prepare(int threads) override { pass_.prepare(threads); }

  void run(Operands operands, std::byte* base, const LaunchParameters& parameters, Workers& workers) const override {
    WorkspaceCutter cutter(base);
    const auto buffers = pass_.take(cutter);
    std::byte* const products = base + cutter.used();
    const SoftmaxPass& softmax = pass_.softmax();
    const Partition& rows = softmax.panels().rows;
    const LogitOperands logits = softmax.logits_of(operands, parameters.first_token);
    const double* statistics = as<double>(operands[3]);
    for (std::int64_t chunk = 0; chunk < rows.count(); ++chunk) {
      const std::int64_t first = rows.begin(chunk);
      for (std::int64_t row = first; row < rows.end(chunk); ++row) {
        buffers.softmax.states[row - first] = load_state(statistics + row * numbers_);
      }
      float* const dx = as<float>(operands[dx_]) + first * hidden_;
      for (std::int64_t part = 0; part < softmax.panels().tokens.count(); ++part) {
        softmax.make_logits(chunk, part, logits, buffers.softmax, products, workers);
        pass_.run(chunk, part, logits, buffers,
                  {reinterpret_cast<std::byte*>(dx), trained_ > 0 ? as<float>(operands[dx_ + 1]) : nullptr,
                   trained_ > 1 ? as<float>(operands[dx_ + 2]) : nullptr, parameters.loss_scale},
                  products, workers);
      }
    }
  }

 private:
  std::int64_t hidden_, numbers_;
  std::size_t dx_;       // operand; the other outputs follow
  std::size_t trained_;  // of table and bias
  GradientPass<T> pass_;
};

}  // namespace

const Factory make_chunk_cross_entropy_backward = make_for_input<ChunkCrossEntropyBackward>;

}  // namespace l2l::device::kernels
