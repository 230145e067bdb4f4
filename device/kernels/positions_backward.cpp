#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/operands.h"
#include "device/kernels/partition.h"

namespace l2l::device::kernels {
namespace {

// Each task owns some positions and adds the sequences in ascending order.
template <typename T>
class PositionsBackward final : public Kernel {
 public:
  PositionsBackward(const graph::Graph& graph, const graph::Op& op)
      : rows_(input(graph, op, 0).shape[0]), hidden_(input(graph, op, 0).shape[1]), sequence_(op.attributes.sequence) {
    require_dtype(graph, op, DType::f32, {1});
  }

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const Partition blocks = row_blocks(sequence_, rows_ / sequence_ * hidden_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      for (std::int64_t place = blocks.begin(block); place < blocks.end(block); ++place) {
        float* position = as<float>(operands[1]) + place * hidden_;
        for (std::int64_t row = place; row < rows_; row += sequence_) {
          const T* dy = as<T>(operands[0]) + row * hidden_;
#pragma omp simd
          for (std::int64_t i = 0; i < hidden_; ++i) position[i] += widen(dy[i]);
        }
      }
    });
  }

 private:
  std::int64_t rows_, hidden_, sequence_;
};

}  // namespace

std::unique_ptr<Kernel> make_positions_backward(const graph::Graph& graph, const graph::Op& op) {
  return make_for_dtype<PositionsBackward>(graph, op, input(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
