#include "device/kernels/cuda_factories.h"
#include "device/kernels/norm_forward.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
using LayerNorm = NormForwardKernel<T, false, false>;
template <typename T>
using AddLayerNorm = NormForwardKernel<T, false, true>;

}  // namespace

std::unique_ptr<Kernel> make_layer_norm(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<LayerNorm, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

std::unique_ptr<Kernel> make_add_layer_norm(const Context& context, const compiler::Graph& graph,
                                            const compiler::Op& op) {
  return make_for<AddLayerNorm, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
