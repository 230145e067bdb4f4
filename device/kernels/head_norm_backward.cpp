#include <algorithm>

#include "device/kernels/common/head_norm.h"
#include "device/kernels/common/operands.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"
#include "device/kernels/row_sums.h"

namespace l2l::device::kernels {
namespace {

// Of each head, with n = x * inverse and g = dy * gain: dx = (g - n mean(g n)) * inverse, dgain is the sum of dy n over
// the rows and the heads that share the gain, in ascending order.
template <typename T>
class HeadNormBackward final : public Kernel {
 public:
  HeadNormBackward(const OpView& op)
      : shape_(op.input(1), op.attributes), blocks_(sum_blocks(shape_.rows)), trained_(op.outputs.size() - 1) {
    op.require_dtype(op.input(1).dtype, {0, 2, 3, 5});
    op.require_dtype(DType::f32, {4});
    for (std::size_t i = 0; i < trained_; ++i) op.require_dtype(DType::f32, {6 + i});
  }

  // Sums of each block: [blocks][queries, keys][size].
  Bytes workspace(int) const override { return static_cast<Bytes>(blocks_.count() * 2 * shape_.size) * sizeof(float); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    float* const partials = as<float>(workspace);
    const std::int64_t stride = 2 * shape_.size;
    workers.parallel_for(blocks_.count(), [&](std::int64_t block, int) {
      float* const sums = partials + block * stride;
      std::fill(sums, sums + stride, 0.0f);
      for (std::int64_t row = blocks_.begin(block); row < blocks_.end(block); ++row) {
        differentiate_row(operands, row, sums);
      }
    });
    for (std::size_t i = 0; i < trained_; ++i) {
      add_partial_sums(partials + static_cast<std::int64_t>(i) * shape_.size, blocks_.count(), stride, shape_.size,
                       as<float>(operands[6 + i]), workers);
    }
  }

 private:
  void differentiate_row(Operands operands, std::int64_t row, float* sums) const {
    const std::int64_t first = row * shape_.width;
    const T *dy = as<T>(operands[0]) + first, *x = as<T>(operands[1]) + first;
    T* dx = as<T>(operands[5]) + first;
    const float* inverses = as<float>(operands[4]) + row * shape_.normed;
    for (int head = 0; head < shape_.normed; ++head) {
      const bool query = head < shape_.heads;
      const std::int64_t begin = head * shape_.size;
      differentiate(dy + begin, x + begin, as<T>(operands[query ? 2 : 3]), inverses[head], dx + begin,
                    query ? sums : sums + shape_.size);
    }
    const std::int64_t copied = shape_.normed * shape_.size;
    std::copy(dy + copied, dy + shape_.width, dx + copied);
  }

  void differentiate(const T* dy, const T* x, const T* gain, float inverse, T* dx, float* dgain) const {
    const float offset = shape_.offset;
    const auto normalized = [=](std::int64_t i) { return widen(x[i]) * inverse; };
    const auto g = [=](std::int64_t i) { return widen(dy[i]) * (offset + widen(gain[i])); };
#pragma omp simd
    for (std::int64_t i = 0; i < shape_.size; ++i) dgain[i] += widen(dy[i]) * normalized(i);
    const float projection =
        sum_of(shape_.size, [=](std::int64_t i) { return g(i) * normalized(i); }) / static_cast<float>(shape_.size);
#pragma omp simd
    for (std::int64_t i = 0; i < shape_.size; ++i) dx[i] = narrow<T>((g(i) - normalized(i) * projection) * inverse);
  }

  HeadNormShape shape_;
  Partition blocks_;
  std::size_t trained_;  // gains: of queries, of keys
};

}  // namespace

const Factory make_head_norm_backward = make_for_input<HeadNormBackward, 1>;

}  // namespace l2l::device::kernels
