#include <bit>

#include "compiler/ir/op_table.h"
#include "device/kernels/convert.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

// A stretch of elements at a time, whose unfinished sums stay in the first-level cache: after `row` rows there is one
// for each bit that is set in `row`.
template <typename T>
class TreeSum final : public Kernel {
 public:
  TreeSum(const OpView& op) : rows_(op.input(0).shape[0]), columns_(op.input(0).shape[1]) {
    op.require_dtype(DType::f32, {1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const T* const x = as<const T>(operands[0]);
    float* const y = as<float>(operands[1]);
    for_blocks(columns_, workers, [=, this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t first = begin; first < end; first += kStretch) {
        sum(x + first, y + first, std::min(kStretch, end - first));
      }
    });
  }

 private:
  static constexpr std::int64_t kStretch = 512;
  static constexpr int kMostSums = std::bit_width(static_cast<std::uint64_t>(compiler::kMostTreeRows));

  void sum(const T* x, float* y, std::int64_t count) const {
    alignas(64) float sums[kMostSums][kStretch];
    int depth = 0;
    const auto add = [&] {
      --depth;
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) sums[depth - 1][i] += sums[depth][i];
    };
    for (std::int64_t row = 0; row < rows_; ++row) {
      widen_row(x + row * columns_, sums[depth++], count);
      for (std::int64_t above = row; above % 2 == 1; above /= 2) add();
    }
    while (depth > 1) add();
    std::copy_n(sums[0], count, y);
  }

  std::int64_t rows_, columns_;
};

}  // namespace

const Factory make_tree_sum = make_for_input<TreeSum>;

}  // namespace l2l::device::kernels
