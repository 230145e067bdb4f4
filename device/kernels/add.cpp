#include "device/kernels/common/operands.h"
#include "device/kernels/common/partition.h"
#include "device/kernels/convert.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Add final : public Kernel {
 public:
  Add(const compiler::Graph& graph, const compiler::Op& op) : elements_(output(graph, op, 0).shape.elements()) {
    require_dtype(graph, op, output(graph, op, 0).dtype, {0, 1});
  }

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const T* a = as<T>(operands[0]);
    const T* b = as<T>(operands[1]);
    T* y = as<T>(operands[2]);
    const Partition blocks = element_blocks(elements_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      const std::int64_t end = blocks.end(block);
#pragma omp simd
      for (std::int64_t i = blocks.begin(block); i < end; ++i) y[i] = narrow<T>(widen(a[i]) + widen(b[i]));
    });
  }

 private:
  std::int64_t elements_;
};

}  // namespace

std::unique_ptr<Kernel> make_add(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<Add>(graph, op, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
