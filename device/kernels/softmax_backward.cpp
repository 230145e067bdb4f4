#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/vector_rows.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class SoftmaxBackward final : public Kernel {
 public:
  SoftmaxBackward(const OpView& op) : rows_(op.output(0).shape[0]), columns_(op.output(0).shape[1]) {
    op.require_dtype(op.output(0).dtype, {0, 1});
  }

  Bytes workspace(int threads) const override { return Rows::workspace(threads, columns_, kCopies); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const Partition blocks = row_blocks(rows_, columns_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int slot) {
      const Rows rows(workspace, slot, columns_, kCopies);
      for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
        const std::int64_t at = row * columns_;
        differentiate(as<T>(operands[0]) + at, as<T>(operands[1]) + at, as<T>(operands[2]) + at, rows);
      }
    });
  }

 private:
  using Rows = VectorRows<T>;
  static constexpr std::int64_t kDy = 0, kY = 1, kCopies = 2;

  static void differentiate(const T* dy_row, const T* y_row, T* dx, const Rows& rows) {
    const float* const dy = rows.read(kDy, dy_row);
    const float* y;
    const float sum =
        rows.read_sum(kY, y_row, y, [dy](std::int64_t i, FloatVector value) { return load_vector(dy + i) * value; });
    rows.write(dx, [=](std::int64_t i) { return load_vector(y + i) * (load_vector(dy + i) - sum); });
  }

  std::int64_t rows_, columns_;
};

}  // namespace

const Factory make_softmax_backward = make_for_output<SoftmaxBackward>;

}  // namespace l2l::device::kernels
