#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/gelu.h"

namespace l2l::device::kernels {
namespace {

// With s = 1 / (1 + e^-2u): dy/dx = s + x s (1 - s) d(2u)/dx, and 1 - s = e^-2u s.
inline __attribute__((always_inline)) float tanh_derivative(float x) {
  const float exponential = gelu_exponential(x);
  const float s = 1.0f / (1.0f + exponential);
  const float slope = kTwiceSqrtTwoOverPi * (1.0f + 3.0f * kGeluCubic * x * x);
  return s + x * s * (exponential * s) * slope;
}

// Phi(x) + x phi(x).
inline __attribute__((always_inline)) float exact_derivative(float x) {
  constexpr float kDensity = 0.398942280f;  // phi(0)
  const float exponential = normal_exponential(x);
  return normal_distribution(x, exponential) + x * kDensity * exponential;
}

template <typename T>
class GeluBackward final : public Kernel {
 public:
  GeluBackward(const compiler::Graph& graph, const compiler::Op& op)
      : elements_(output(graph, op, 0).shape.elements()), exact_(op.attributes.exact) {
    require_dtype(graph, op, output(graph, op, 0).dtype, {0, 1});
  }

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    if (exact_) {
      run_with(operands, workers, [](float x) { return exact_derivative(x); });
    } else {
      run_with(operands, workers, [](float x) { return tanh_derivative(x); });
    }
  }

 private:
  template <typename F>
  void run_with(std::span<std::byte* const> operands, Workers& workers, F derivative) const {
    const T* dy = as<T>(operands[0]);
    const T* x = as<T>(operands[1]);
    T* dx = as<T>(operands[2]);
    const Partition blocks = element_blocks(elements_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      const std::int64_t end = blocks.end(block);
#pragma omp simd
      for (std::int64_t i = blocks.begin(block); i < end; ++i) {
        dx[i] = narrow<T>(widen(dy[i]) * derivative(widen(x[i])));
      }
    });
  }

  std::int64_t elements_;
  bool exact_;
};

}  // namespace

std::unique_ptr<Kernel> make_gelu_backward(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<GeluBackward>(graph, op, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
