#include <algorithm>

#include "device/kernels/convert.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class AddColumns final : public Kernel {
 public:
  AddColumns(const OpView& op)
      : rows_(op.input(0).shape[0]),
        width_(op.input(0).shape[1]),
        count_(op.input(1).shape[1]),
        first_(op.attributes.first),
        factor_(op.attributes.factor) {
    op.require_dtype(op.output(0).dtype, {0, 1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    for_rows(rows_, width_, workers, [&](std::int64_t row) {
      const T* const x = as<T>(operands[0]) + row * width_;
      const T* const y = as<T>(operands[1]) + row * count_;
      T* const z = as<T>(operands[2]) + row * width_;
      const float factor = factor_;
      std::copy(x, x + first_, z);
#pragma omp simd
      for (std::int64_t i = 0; i < count_; ++i) z[first_ + i] = narrow<T>(widen(x[first_ + i]) + factor * widen(y[i]));
      std::copy(x + first_ + count_, x + width_, z + first_ + count_);
    });
  }

 private:
  std::int64_t rows_, width_, count_, first_;
  float factor_;
};

}  // namespace

const Factory make_add_columns = make_for_output<AddColumns>;

}  // namespace l2l::device::kernels
