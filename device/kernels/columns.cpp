#include "device/kernels/convert.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Columns final : public Kernel {
 public:
  Columns(const OpView& op)
      : rows_(op.output(0).shape[0]),
        count_(op.output(0).shape[1]),
        width_(op.input(0).shape[1]),
        first_(op.attributes.first),
        factor_(op.attributes.factor) {
    op.require_dtype(op.output(0).dtype, {0});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    for_rows(rows_, count_, workers, [&](std::int64_t row) {
      const T* const x = as<T>(operands[0]) + row * width_ + first_;
      T* const y = as<T>(operands[1]) + row * count_;
      const float factor = factor_;
#pragma omp simd
      for (std::int64_t i = 0; i < count_; ++i) y[i] = narrow<T>(factor * widen(x[i]));
    });
  }

 private:
  std::int64_t rows_, count_, width_, first_;
  float factor_;
};

}  // namespace

const Factory make_columns = make_for_output<Columns>;

}  // namespace l2l::device::kernels
