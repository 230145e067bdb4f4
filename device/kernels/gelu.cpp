#include "device/kernels/gelu.h"

#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

inline __attribute__((always_inline)) float tanh_gelu(float x) { return x / (1.0f + gelu_exponential(x)); }
inline __attribute__((always_inline)) float exact_gelu(float x) {
  return x * normal_distribution(x, normal_exponential(x));
}

template <typename T>
class Gelu final : public Kernel {
 public:
  Gelu(const compiler::Graph& graph, const compiler::Op& op)
      : elements_(output(graph, op, 0).shape.elements()), exact_(op.attributes.exact) {
    require_dtype(graph, op, output(graph, op, 0).dtype, {0});
  }

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    if (exact_) {
      run_with(operands, workers, [](float x) { return exact_gelu(x); });
    } else {
      run_with(operands, workers, [](float x) { return tanh_gelu(x); });
    }
  }

 private:
  template <typename F>
  void run_with(std::span<std::byte* const> operands, Workers& workers, F gelu) const {
    const T* source = as<T>(operands[0]);
    T* destination = as<T>(operands[1]);
    const Partition blocks = element_blocks(elements_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      const std::int64_t end = blocks.end(block);
#pragma omp simd
      for (std::int64_t i = blocks.begin(block); i < end; ++i) destination[i] = narrow<T>(gelu(widen(source[i])));
    });
  }

  std::int64_t elements_;
  bool exact_;
};

}  // namespace

std::unique_ptr<Kernel> make_gelu(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<Gelu>(graph, op, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
