#include <algorithm>
#include <cmath>

#include "device/kernels/common/head_norm.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/reduce.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class HeadNorm final : public Kernel {
 public:
  HeadNorm(const OpView& op) : shape_(op.input(0), op.attributes) {
    op.require_dtype(op.output(0).dtype, {0, 1, 2});
    op.require_dtype(DType::f32, {4});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    for_rows(shape_.rows, shape_.width, workers, [&](std::int64_t row) {
      const T* x = as<T>(operands[0]) + row * shape_.width;
      T* y = as<T>(operands[3]) + row * shape_.width;
      float* inverses = as<float>(operands[4]) + row * shape_.normed;
      for (int head = 0; head < shape_.normed; ++head, x += shape_.size, y += shape_.size) {
        inverses[head] = normalize(x, as<T>(operands[head < shape_.heads ? 1 : 2]), y);
      }
      std::copy(x, x + (shape_.width - shape_.normed * shape_.size), y);
    });
  }

 private:
  float normalize(const T* x, const T* gain, T* y) const {
    const float squares = sum_of(shape_.size, [x](std::int64_t i) { return widen(x[i]) * widen(x[i]); });
    const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(shape_.size) + shape_.epsilon);
#pragma omp simd
    for (std::int64_t i = 0; i < shape_.size; ++i) {
      y[i] = narrow<T>(widen(x[i]) * inverse * (shape_.offset + widen(gain[i])));
    }
    return inverse;
  }

  HeadNormShape shape_;
};

}  // namespace

const Factory make_head_norm = make_for_output<HeadNorm>;

}  // namespace l2l::device::kernels
