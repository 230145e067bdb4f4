#include "device/kernels/activations.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

// y = activation(gate) up (Shazeer, "GLU variants improve transformer", 2020); a row of x is [gate | up].
template <typename T, typename Activation>
class Swiglu final : public Kernel {
 public:
  Swiglu(const OpView& op) : rows_(op.output(0).shape[0]), width_(op.output(0).shape[1]) {
    op.require_dtype(op.output(0).dtype, {0});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    for_rows(rows_, width_, workers, [&](std::int64_t row) {
      const T* gate = as<T>(operands[0]) + row * 2 * width_;
      const T* up = gate + width_;
      T* y = as<T>(operands[1]) + row * width_;
#pragma omp simd
      for (std::int64_t i = 0; i < width_; ++i) {
        y[i] = narrow<T>(Activation::value(widen(gate[i])) * widen(up[i]));
      }
    });
  }

 private:
  std::int64_t rows_, width_;
};

}  // namespace

const Factory make_swiglu = make_for_activation<Swiglu>;

}  // namespace l2l::device::kernels
