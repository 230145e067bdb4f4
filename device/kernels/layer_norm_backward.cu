#include "device/kernels/cuda_factories.h"
#include "device/kernels/norm_backward.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
using LayerNormBackward = NormBackwardKernel<T, false>;

}  // namespace

std::unique_ptr<Kernel> make_layer_norm_backward(const Context& context, const compiler::Graph& graph,
                                                 const compiler::Op& op) {
  return make_for<LayerNormBackward, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

std::unique_ptr<Kernel> make_layer_norm_backward_add(const Context& context, const compiler::Graph& graph,
                                                     const compiler::Op& op) {
  return make_layer_norm_backward(context, graph, op);
}

}  // namespace l2l::device::cuda
