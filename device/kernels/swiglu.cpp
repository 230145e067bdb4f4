#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/gate.h"

namespace l2l::device::kernels {
namespace {

// y = activation(gate) up (Shazeer, "GLU variants improve transformer", 2020); a row of x is [gate | up].
template <typename T, typename Gate>
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
        y[i] = narrow<T>(Gate::value(widen(gate[i])) * widen(up[i]));
      }
    });
  }

 private:
  std::int64_t rows_, width_;
};

template <typename Gate>
struct SwigluOf {
  template <typename T>
  using OfType = Swiglu<T, Gate>;
};

}  // namespace

std::unique_ptr<Kernel> make_swiglu(const compiler::Graph& graph, const compiler::Op& op) {
  return with_gate(op.attributes, [&]<typename Gate>() {
    return make_for_dtype<SwigluOf<Gate>::template OfType>(graph, op, output(graph, op, 0).dtype);
  });
}

}  // namespace l2l::device::kernels
