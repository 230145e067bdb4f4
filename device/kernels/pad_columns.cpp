#include <algorithm>

#include "device/kernels/convert.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class PadColumns final : public Kernel {
 public:
  PadColumns(const OpView& op)
      : rows_(op.output(0).shape[0]),
        width_(op.output(0).shape[1]),
        count_(op.input(0).shape[1]),
        first_(op.attributes.first),
        factor_(op.attributes.factor) {
    op.require_dtype(op.output(0).dtype, {0});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    for_rows(rows_, width_, workers, [&](std::int64_t row) {
      const T* const x = as<T>(operands[0]) + row * count_;
      T* const y = as<T>(operands[1]) + row * width_;
      T* const own = y + first_;
      const float factor = factor_;
      std::fill(y, own, narrow<T>(0));
#pragma omp simd
      for (std::int64_t i = 0; i < count_; ++i) own[i] = narrow<T>(factor * widen(x[i]));
      std::fill(own + count_, y + width_, narrow<T>(0));
    });
  }

 private:
  std::int64_t rows_, width_, count_, first_;
  float factor_;
};

}  // namespace

const Factory make_pad_columns = make_for_output<PadColumns>;

}  // namespace l2l::device::kernels
