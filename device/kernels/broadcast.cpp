#include <algorithm>

#include "device/kernels/convert.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/strides.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Broadcast final : public Kernel {
 public:
  Broadcast(const OpView& op) : dims_(op.attributes), factor_(op.attributes.factor) {
    op.require_dtype(op.output(0).dtype, {0});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const T* const x = as<T>(operands[0]);
    const auto& sizes = dims_.sizes;
    const std::int64_t columns = sizes[3];
    for_rows(sizes[0] * sizes[1] * sizes[2], columns, workers, [&](std::int64_t row) {
      T* const y = as<T>(operands[1]) + row * columns;
      if (dims_.last_kept) {
        scale_row(x + row / sizes[2] % sizes[1] * columns, y);
      } else {
        const std::int64_t place = row / (sizes[1] * sizes[2]) * sizes[2] + row % sizes[2];
        std::fill_n(y, columns, narrow<T>(factor_ * widen(x[place])));
      }
    });
  }

 private:
  void scale_row(const T* x, T* y) const {
    const float factor = factor_;
    if (factor == 1) {
      std::copy_n(x, dims_.sizes[3], y);
      return;
    }
#pragma omp simd
    for (std::int64_t i = 0; i < dims_.sizes[3]; ++i) y[i] = narrow<T>(factor * widen(x[i]));
  }

  KeptDims dims_;
  float factor_;
};

}  // namespace

const Factory make_broadcast = make_for_output<Broadcast>;

}  // namespace l2l::device::kernels
