#include "device/kernels/row_cross_entropy.h"

#include <cmath>

#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class RowCrossEntropy final : public Kernel {
 public:
  RowCrossEntropy(const OpView& op) : rows_("row_cross_entropy", op.input(0).shape[0], op.input(0).shape[1]) {
    op.require_dtype(DType::i32, {1});
    op.require_dtype(DType::f32, {2});
  }

  Bytes workspace(int threads) const override { return rows_.workspace(threads); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const std::int64_t columns = rows_.columns();
    rows_.for_each(as<std::int32_t>(operands[1]), workspace, workers,
                   [&](std::int64_t row, std::int64_t target, float* line) {
                     float& loss = as<float>(operands[2])[row];
                     loss = 0;
                     if (target < 0) return;
                     const SoftmaxOfRow softmax = softmax_of_row(as<T>(operands[0]) + row * columns, columns, line);
                     loss = std::log(softmax.sum) - (line[target] - softmax.largest);
                   });
  }

 private:
  TargetRows rows_;
};

}  // namespace

const Factory make_row_cross_entropy = make_for_input<RowCrossEntropy>;

}  // namespace l2l::device::kernels
