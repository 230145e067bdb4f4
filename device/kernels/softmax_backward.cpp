#include "device/kernels/compute_rows.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class SoftmaxBackward final : public Kernel {
 public:
  SoftmaxBackward(const OpView& op) : rows_(op.output(0).shape[0]), columns_(op.output(0).shape[1]) {
    op.require_dtype(op.output(0).dtype, {0, 1});
  }

  Bytes workspace(int threads) const override { return Rows::workspace(threads, columns_); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const Partition blocks = row_blocks(rows_, columns_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int slot) {
      const Rows rows(workspace, slot, columns_);
      for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
        Rows its = rows;
        const auto* dy = its.read(as<T>(operands[0]) + row * columns_);
        const auto* y = its.read(as<T>(operands[1]) + row * columns_);
        T* const dx = as<T>(operands[2]) + row * columns_;
        auto* result = its.write(dx);
        differentiate(dy, y, result);
        its.written(result, dx);
      }
    });
  }

 private:
  using Rows = ComputeRows<T, 3>;

  template <typename U>
  void differentiate(const U* dy, const U* y, U* dx) const {
    const float sum = sum_of(columns_, [=](std::int64_t i) { return widen(dy[i]) * widen(y[i]); });
#pragma omp simd
    for (std::int64_t i = 0; i < columns_; ++i) dx[i] = narrow<U>(widen(y[i]) * (widen(dy[i]) - sum));
  }

  std::int64_t rows_, columns_;
};

}  // namespace

const Factory make_softmax_backward = make_for_output<SoftmaxBackward>;

}  // namespace l2l::device::kernels
