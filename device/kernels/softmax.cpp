#include "device/kernels/softmax_rows.h"

#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Softmax final : public Kernel {
 public:
  Softmax(const OpView& op) : rows_(op.output(0).shape[0]), lines_{op.output(0).shape[1]} {
    op.require_dtype(op.output(0).dtype, {0});
  }

  Bytes workspace(int threads) const override { return lines_.workspace(threads); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    const std::int64_t columns = lines_.columns;
    const Partition blocks = row_blocks(rows_, columns);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int slot) {
      float* const line = lines_.of(workspace, slot);
      for (std::int64_t row = blocks.begin(block); row < blocks.end(block); ++row) {
        normalize(as<T>(operands[0]) + row * columns, line, as<T>(operands[1]) + row * columns);
      }
    });
  }

 private:
  void normalize(const T* x, float* line, T* y) const {
    const std::int64_t columns = lines_.columns;
    widen_row(x, line, columns);
    const float largest = largest_of(line, columns);
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) line[i] = exp_or_zero(line[i] - largest);
    const float factor = 1.0f / sum_of(columns, [line](std::int64_t i) { return line[i]; });
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) line[i] *= factor;
    narrow_row(line, y, columns);
  }

  std::int64_t rows_;
  WorkerLines lines_;
};

}  // namespace

const Factory make_softmax = make_for_output<Softmax>;

}  // namespace l2l::device::kernels
