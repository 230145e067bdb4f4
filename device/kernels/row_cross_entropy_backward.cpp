#include <algorithm>

#include "device/kernels/factories.h"
#include "device/kernels/row_cross_entropy.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class RowCrossEntropyBackward final : public Kernel {
 public:
  RowCrossEntropyBackward(const OpView& op)
      : rows_("row_cross_entropy_backward", op.input(1).shape[0], op.input(1).shape[1]) {
    op.require_dtype(DType::f32, {0});
    op.require_dtype(DType::i32, {2});
    op.require_dtype(op.input(1).dtype, {3});
  }

  Bytes workspace(int threads) const override { return rows_.workspace(threads); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const std::int64_t columns = rows_.columns();
    rows_.for_each(as<std::int32_t>(operands[2]), workspace, workers,
                   [&](std::int64_t row, std::int64_t target, float* line) {
                     T* const dlogits = as<T>(operands[3]) + row * columns;
                     if (target < 0) {
                       std::fill_n(dlogits, columns, narrow<T>(0));
                     } else {
                       const T* const logits = as<T>(operands[1]) + row * columns;
                       differentiate(logits, target, as<float>(operands[0])[row], line, dlogits);
                     }
                   });
  }

 private:
  void differentiate(const T* logits, std::int64_t target, float dy, float* line, T* dlogits) const {
    const std::int64_t columns = rows_.columns();
    const auto [largest, sum] = softmax_of_row(logits, columns, line);
    const float offset = largest, inverse = 1.0f / sum;
    const float chosen = (exp_or_zero(line[target] - offset) * inverse - 1.0f) * dy;
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) line[i] = exp_or_zero(line[i] - offset) * inverse * dy;
    line[target] = chosen;
    narrow_row(line, dlogits, columns);
  }

  TargetRows rows_;
};

}  // namespace

const Factory make_row_cross_entropy_backward = make_for_input<RowCrossEntropyBackward, 1>;

}  // namespace l2l::device::kernels
