#include <bit>

#include "compiler/ir/op_table.h"
#include "device/kernels/common/elementwise.cuh"
#include "device/kernels/cuda_factories.h"

namespace l2l::device::cuda {
namespace {

// Moves an element of T in for each row, and 4 bytes out.
template <typename T>
struct TreeSumBody : ElementwiseBody {
  using Element = T;
  static constexpr bool kRows = true;
  static constexpr int kLevels = std::bit_width(static_cast<std::uint64_t>(compiler::kMostTreeRows));
  std::int64_t rows;
  const T* x = nullptr;
  float* y = nullptr;

  explicit TreeSumBody(const OpView& op) : ElementwiseBody(op), rows(op.input(0).shape[0]) {
    columns = op.input(0).shape[1];
  }

  void bind(Operands operands, const LaunchParameters*) {
    x = as<const T>(operands[0]);
    y = as<float>(operands[1]);
  }

  // Level l has the sum of 2^l rows that waits for the next one, where that bit of the rows so far is set. Loops over
  // levels are unrolled, so that sums stay in registers.
  template <int Count>
  __device__ Floats<Count> values(std::int64_t first) const {
    Floats<Count> waiting[kLevels];
    for (std::int64_t row = 0; row < rows; ++row) {
      Floats<Count> sum = load_floats<Count>(x + row * columns + first);
      bool carries = true;
#pragma unroll
      for (int level = 0; level < kLevels; ++level) {
        if (!carries) continue;
        carries = (row >> level) % 2 == 1;
        if (carries) {
          add(sum, waiting[level], sum);
        } else {
          waiting[level] = sum;
        }
      }
    }
    Floats<Count> total{};
    bool begun = false;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if ((rows >> level) % 2 == 0) continue;
      if (begun) {
        add(total, waiting[level], total);
      } else {
        total = waiting[level];
      }
      begun = true;
    }
    return total;
  }

 private:
  template <int Count>
  __device__ static void add(Floats<Count>& sum, const Floats<Count>& a, const Floats<Count>& b) {
#pragma unroll
    for (int i = 0; i < Count; ++i) sum[i] = a[i] + b[i];
  }
};

template <typename T>
using TreeSum = ElementwiseKernel<Stored<TreeSumBody<T>>>;

}  // namespace

const Factory make_tree_sum = make_for_input<TreeSum>;

}  // namespace l2l::device::cuda
