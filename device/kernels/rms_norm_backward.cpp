#include "device/kernels/factories.h"
#include "device/kernels/norm_backward.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
using RmsNormBackward = NormBackward<T, true>;

}  // namespace

std::unique_ptr<Kernel> make_rms_norm_backward(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<RmsNormBackward>(graph, op, input(graph, op, 1).dtype);
}

}  // namespace l2l::device::kernels
