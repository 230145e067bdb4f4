#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

constexpr std::int64_t kColumns = 64;  // of a task
constexpr std::int64_t kRows = 64;     // of a partial sum: many sequences are summed in two steps

// Each task owns some columns of some positions and adds the sequences in ascending order.
template <typename T>
class PositionsBackward final : public Kernel {
 public:
  PositionsBackward(const OpView& op)
      : rows_(op.input(0).shape[0]), hidden_(op.input(0).shape[1]), sequence_(op.attributes.sequence) {
    op.require_dtype(DType::f32, {1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const std::int64_t strips = (hidden_ + kColumns - 1) / kColumns;
    const Partition blocks = row_blocks(sequence_ * strips, rows_ / sequence_ * kColumns);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      for (std::int64_t i = blocks.begin(block); i < blocks.end(block); ++i) {
        add_strip(operands, i / strips, i % strips * kColumns);
      }
    });
  }

 private:
  void add_strip(Operands operands, std::int64_t place, std::int64_t column) const {
    const std::int64_t count = std::min(kColumns, hidden_ - column);
    float total[kColumns] = {};
    for (std::int64_t row = place; row < rows_;) {
      float partial[kColumns] = {};
      for (const std::int64_t end = std::min(rows_, row + kRows * sequence_); row < end; row += sequence_) {
        const T* dy = as<T>(operands[0]) + row * hidden_ + column;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) partial[i] += widen(dy[i]);
      }
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) total[i] += partial[i];
    }
    float* position = as<float>(operands[1]) + place * hidden_ + column;
    for (std::int64_t i = 0; i < count; ++i) position[i] += total[i];
  }

  std::int64_t rows_, hidden_, sequence_;
};

}  // namespace

const Factory make_positions_backward = make_for_input<PositionsBackward>;

}  // namespace l2l::device::kernels
