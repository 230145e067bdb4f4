#include "device/kernels/common/operands.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/row_sums.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class BiasGradient final : public Kernel {
 public:
  BiasGradient(const OpView& op) : columns_(op.input(0).shape[1]), blocks_(sum_blocks(op.input(0).shape[0])) {
    op.require_dtype(DType::f32, {1});
  }

  Bytes workspace(int) const override { return static_cast<Bytes>(blocks_.count() * columns_) * sizeof(float); }

  void run(Operands operands, std::byte* workspace, const LaunchParameters&, Workers& workers) const override {
    float* partials = as<float>(workspace);
    workers.parallel_for(blocks_.count(), [&](std::int64_t block, int) {
      float* partial = partials + block * columns_;
      std::fill(partial, partial + columns_, 0.0f);
      for (std::int64_t row = blocks_.begin(block); row < blocks_.end(block); ++row) {
        const T* dy = as<T>(operands[0]) + row * columns_;
#pragma omp simd
        for (std::int64_t i = 0; i < columns_; ++i) partial[i] += widen(dy[i]);
      }
    });
    add_partial_sums(partials, blocks_.count(), columns_, columns_, as<float>(operands[1]), workers);
  }

 private:
  std::int64_t columns_;
  Partition blocks_;
};

}  // namespace

const Factory make_bias_gradient = make_for_input<BiasGradient>;

}  // namespace l2l::device::kernels
