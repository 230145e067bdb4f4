#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/tokens.h"

namespace l2l::device::kernels {
namespace {

constexpr std::int64_t kColumns = 64;  // of a task
constexpr std::int64_t kRows = 64;     // of a partial sum: many sequences are summed in two steps

// Each task owns some columns of some positions and adds the sequences in ascending order.
template <typename T>
class PositionsBackward final : public Kernel {
 public:
  PositionsBackward(const compiler::Graph& graph, const compiler::Op& op)
      : rows_(input(graph, op, 0).shape[0]),
        hidden_(input(graph, op, 0).shape[1]),
        sequence_(op.attributes.sequence),
        positions_(output(graph, op, 0).shape[0]),
        places_(op.inputs.size() > 1) {
    require_dtype(graph, op, DType::f32, {op.inputs.size()});
  }

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    if (places_) return scatter(operands, workers);
    const std::int64_t strips = (hidden_ + kColumns - 1) / kColumns;
    const Partition blocks = row_blocks(sequence_ * strips, rows_ / sequence_ * kColumns);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      for (std::int64_t i = blocks.begin(block); i < blocks.end(block); ++i) {
        add_strip(operands, i / strips, i % strips * kColumns);
      }
    });
  }

 private:
  // Each task owns some columns of the table and adds the rows in ascending order.
  void scatter(std::span<std::byte* const> operands, Workers& workers) const {
    const Partition columns{hidden_, kColumns};
    workers.parallel_for(columns.count(), [&](std::int64_t block, int) {
      const std::int64_t begin = columns.begin(block), count = columns.end(block) - begin;
      for (std::int64_t row = 0; row < rows_; ++row) {
        const T* dy = as<T>(operands[0]) + row * hidden_ + begin;
        const std::int64_t place =
            place_of("positions_backward", as<std::int32_t>(operands[1]), row, sequence_, positions_);
        float* position = as<float>(operands[2]) + place * hidden_ + begin;
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) position[i] += widen(dy[i]);
      }
    });
  }

  void add_strip(std::span<std::byte* const> operands, std::int64_t place, std::int64_t column) const {
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

  std::int64_t rows_, hidden_, sequence_, positions_;
  bool places_;
};

}  // namespace

std::unique_ptr<Kernel> make_positions_backward(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<PositionsBackward>(graph, op, input(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
