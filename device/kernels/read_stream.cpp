#include "device/kernels/common/partition.h"
#include "device/kernels/factories.h"
#include "device/kernels/streams.h"

namespace l2l::device::kernels {
namespace {

template <typename Stream, typename T>
class ReadStream final : public Kernel {
 public:
  ReadStream(const compiler::Graph& graph, const compiler::Op& op) : elements_(output(graph, op, 0).shape.elements()) {}

  void run(std::span<std::byte* const> operands, std::byte*, const LaunchParameters&, Workers& workers) const override {
    const Stream* x = as<Stream>(operands[0]);
    T* y = as<T>(operands[1]);
    const Partition blocks = element_blocks(elements_);
    workers.parallel_for(blocks.count(), [&](std::int64_t block, int) {
      narrow_each(y, blocks.begin(block), blocks.end(block), [=](std::int64_t i) { return widen(x[i]); });
    });
  }

 private:
  std::int64_t elements_;
};

}  // namespace

std::unique_ptr<Kernel> make_read_stream(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_stream<ReadStream>(graph, op, input(graph, op, 0).dtype, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
