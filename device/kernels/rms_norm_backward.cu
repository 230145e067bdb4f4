#include "device/kernels/cuda_factories.h"
#include "device/kernels/norm_backward.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
using RmsNormBackward = NormBackwardKernel<T, true>;

}  // namespace

std::unique_ptr<Kernel> make_rms_norm_backward(const Context& context, const compiler::Graph& graph,
                                               const compiler::Op& op) {
  return make_for<RmsNormBackward, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

std::unique_ptr<Kernel> make_rms_norm_backward_add(const Context& context, const compiler::Graph& graph,
                                                   const compiler::Op& op) {
  return make_rms_norm_backward(context, graph, op);
}

}  // namespace l2l::device::cuda
