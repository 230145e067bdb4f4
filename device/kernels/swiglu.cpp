#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {
namespace {

// y = gate sigmoid(gate) up (Shazeer, "GLU variants improve transformer", 2020); a row of x is [gate | up].
template <typename T>
class Swiglu final : public Kernel {
 public:
  Swiglu(const compiler::Graph& graph, const compiler::Op& op)
      : rows_(output(graph, op, 0).shape[0]), width_(output(graph, op, 0).shape[1]) {
    require_dtype(graph, op, output(graph, op, 0).dtype, {0});
  }

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    for_rows(rows_, width_, workers, [&](std::int64_t row) {
      const T* gate = as<T>(operands[0]) + row * 2 * width_;
      const T* up = gate + width_;
      T* y = as<T>(operands[1]) + row * width_;
#pragma omp simd
      for (std::int64_t i = 0; i < width_; ++i) {
        const float g = widen(gate[i]);
        y[i] = narrow<T>(g / (1.0f + fast_exp(-g)) * widen(up[i]));
      }
    });
  }

 private:
  std::int64_t rows_, width_;
};

}  // namespace

std::unique_ptr<Kernel> make_swiglu(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<Swiglu>(graph, op, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
