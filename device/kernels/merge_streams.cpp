#include "device/kernels/common/partition.h"
#include "device/kernels/factories.h"
#include "device/kernels/streams.h"

namespace l2l::device::kernels {
namespace {

template <typename Stream, typename T>
class MergeStreams final : public Kernel {
 public:
  MergeStreams(const compiler::Graph& graph, const compiler::Op& op)
      : elements_(output(graph, op, 0).shape.elements()) {}

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const Stream* a = as<Stream>(operands[0]);
    const Stream* b = as<Stream>(operands[1]);
    T* y = as<T>(operands[2]);
    const Partition blocks = element_blocks(elements_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      narrow_each(y, blocks.begin(block), blocks.end(block), [=](std::int64_t i) { return widen(a[i]) + widen(b[i]); });
    });
  }

 private:
  std::int64_t elements_;
};

}  // namespace

std::unique_ptr<Kernel> make_merge_streams(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_stream<MergeStreams>(graph, op, input(graph, op, 0).dtype, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
