#include "device/kernels/activations.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

// dgate = dy up times the activation's derivative, dup = dy times the activation (activations.h).
template <typename T, typename Activation>
class SwigluBackward final : public Kernel {
 public:
  SwigluBackward(const OpView& op) : rows_(op.input(0).shape[0]), width_(op.input(0).shape[1]) {
    op.require_dtype(op.output(0).dtype, {0, 1});
  }

  void run(Operands operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    for_rows(rows_, width_, workers, [&](std::int64_t row) { differentiate(operands, row); });
  }

 private:
  void differentiate(Operands operands, std::int64_t row) const {
    const T* dy = as<T>(operands[0]) + row * width_;
    const T* gate = as<T>(operands[1]) + row * 2 * width_;
    const T* up = gate + width_;
    T* dgate = as<T>(operands[2]) + row * 2 * width_;
    T* dup = dgate + width_;
#pragma omp simd
    for (std::int64_t i = 0; i < width_; ++i) {
      const float g = widen(gate[i]), gradient = widen(dy[i]), factor = widen(up[i]);
      const ActivationDerivative derivative = Activation::derivative(g);
      dgate[i] = narrow<T>(gradient * factor * derivative.slope);
      dup[i] = narrow<T>(gradient * g * derivative.share);
    }
  }

  std::int64_t rows_, width_;
};

}  // namespace

const Factory make_swiglu_backward = make_for_activation<SwigluBackward>;

}  // namespace l2l::device::kernels
