#include "device/kernels/factories.h"
#include "device/kernels/norm_backward.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
using LayerNormBackward = NormBackward<T, false>;

}  // namespace

std::unique_ptr<Kernel> make_layer_norm_backward(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<LayerNormBackward>(graph, op, input(graph, op, 1).dtype);
}

}  // namespace l2l::device::kernels
