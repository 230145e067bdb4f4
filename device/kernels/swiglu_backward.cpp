#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {
namespace {

// With s = sigmoid(gate): dgate = dy up (s + gate s (1 - s)), dup = dy gate s; 1 - s = e^-gate s.
template <typename T>
class SwigluBackward final : public Kernel {
 public:
  SwigluBackward(const compiler::Graph& graph, const compiler::Op& op)
      : rows_(input(graph, op, 0).shape[0]), width_(input(graph, op, 0).shape[1]) {
    require_dtype(graph, op, output(graph, op, 0).dtype, {0, 1});
  }

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    for_rows(rows_, width_, workers, [&](std::int64_t row) { differentiate(operands, row); });
  }

 private:
  void differentiate(std::span<std::byte* const> operands, std::int64_t row) const {
    const T* dy = as<T>(operands[0]) + row * width_;
    const T* gate = as<T>(operands[1]) + row * 2 * width_;
    const T* up = gate + width_;
    T* dgate = as<T>(operands[2]) + row * 2 * width_;
    T* dup = dgate + width_;
#pragma omp simd
    for (std::int64_t i = 0; i < width_; ++i) {
      const float g = widen(gate[i]), gradient = widen(dy[i]), factor = widen(up[i]);
      const float exponential = fast_exp(-g), s = 1.0f / (1.0f + exponential);
      dgate[i] = narrow<T>(gradient * factor * (s + g * s * (exponential * s)));
      dup[i] = narrow<T>(gradient * g * s);
    }
  }

  std::int64_t rows_, width_;
};

}  // namespace

std::unique_ptr<Kernel> make_swiglu_backward(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<SwigluBackward>(graph, op, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
