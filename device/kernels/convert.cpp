#include "device/kernels/convert.h"

#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

// The sum of squares, in double and sixteen lanes: no square of an fp32 number is rounded, no sum of them overflows.
template <typename T>
double sum_of_squares(const T* values, std::int64_t count) {
  constexpr std::int64_t kLanes = 16;
  double lanes[kLanes] = {};
  for (std::int64_t first = 0; first < count; first += kLanes) {
    const std::int64_t used = std::min(kLanes, count - first);
#pragma omp simd
    for (std::int64_t lane = 0; lane < used; ++lane) {
      const double value = widen(values[first + lane]);
      lanes[lane] += value * value;
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// Rounds block by block, and sums the squares of a block while it is in the cache.
template <typename T>
class Convert final : public Kernel {
 public:
  Convert(const OpView& op) : blocks_(element_blocks(op.output(0).shape.elements())), squares_(op.outputs.size() > 1) {
    op.require_dtype(DType::f32, {0});
  }

  Bytes workspace(int) const override { return squares_ ? static_cast<Bytes>(blocks_.count()) * sizeof(double) : 0; }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    double* const sums = as<double>(workspace);
    workers.parallel_for(blocks_.count(), [&](std::int64_t block, int) {
      const std::int64_t begin = blocks_.begin(block), count = blocks_.end(block) - begin;
      T* const y = as<T>(operands[1]) + begin;
      narrow_row(as<float>(operands[0]) + begin, y, count);
      if (squares_) sums[block] = sum_of_squares(y, count);
    });
    if (!squares_) return;
    double sum = 0;
    for (std::int64_t block = 0; block < blocks_.count(); ++block) sum += sums[block];
    *as<double>(operands[2]) = sum;
  }

 private:
  Partition blocks_;
  bool squares_;
};

}  // namespace

const Factory make_convert = make_for_output<Convert>;

}  // namespace l2l::device::kernels
