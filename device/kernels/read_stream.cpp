#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct Read {
  __attribute__((always_inline)) float operator()(float x) const { return x; }
};

}  // namespace

std::unique_ptr<Kernel> make_read_stream(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_stream<OneInput<Read>::OfStream>(graph, op, input(graph, op, 0).dtype, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
