#include "device/kernels/gelu.h"

#include "device/kernels/convert.h"
#include "device/kernels/factories.h"
#include "device/kernels/operands.h"
#include "device/kernels/partition.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Gelu final : public Kernel {
 public:
  Gelu(const graph::Graph& graph, const graph::Op& op) : elements_(output(graph, op, 0).shape.elements()) {
    require_dtype(graph, op, output(graph, op, 0).dtype, {0});
  }

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const T* source = as<T>(operands[0]);
    T* destination = as<T>(operands[1]);
    const Partition blocks = element_blocks(elements_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      const std::int64_t end = blocks.end(block);
#pragma omp simd
      for (std::int64_t i = blocks.begin(block); i < end; ++i) {
        const float x = widen(source[i]);
        destination[i] = narrow<T>(x / (1.0f + gelu_exponential(x)));
      }
    });
  }

 private:
  std::int64_t elements_;
};

}  // namespace

std::unique_ptr<Kernel> make_gelu(const graph::Graph& graph, const graph::Op& op) {
  return make_for_dtype<Gelu>(graph, op, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
