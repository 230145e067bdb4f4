#include "device/kernels/convert.h"

#include "device/kernels/factories.h"
#include "device/kernels/operands.h"
#include "device/kernels/partition.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
class Convert final : public Kernel {
 public:
  Convert(const graph::Graph& graph, const graph::Op& op) : elements_(output(graph, op, 0).shape.elements()) {
    require_dtype(graph, op, DType::f32, {0});
  }

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const Partition blocks = element_blocks(elements_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      const std::int64_t begin = blocks.begin(block);
      narrow_row(as<float>(operands[0]) + begin, as<T>(operands[1]) + begin, blocks.end(block) - begin);
    });
  }

 private:
  std::int64_t elements_;
};

}  // namespace

std::unique_ptr<Kernel> make_convert(const graph::Graph& graph, const graph::Op& op) {
  return make_for_dtype<Convert>(graph, op, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
