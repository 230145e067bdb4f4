#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct SumOfStreams {
  __attribute__((always_inline)) float operator()(float a, float b) const { return a + b; }
};

}  // namespace

std::unique_ptr<Kernel> make_merge_streams(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_stream<TwoInputs<SumOfStreams>::OfStream>(graph, op, input(graph, op, 0).dtype,
                                                            output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
