#include "device/kernels/cuda_factories.h"
#include "device/kernels/norm_backward.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
using RmsNormBackwardAdd = NormBackwardKernel<T, true, true>;

}  // namespace

std::unique_ptr<Kernel> make_rms_norm_backward_add(const Context& context, const compiler::Graph& graph,
                                                   const compiler::Op& op) {
  return make_for<RmsNormBackwardAdd, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
