#include "device/kernels/cuda_factories.h"
#include "device/kernels/norm_forward.cuh"

namespace l2l::device::cuda {
namespace {

template <typename T>
using RmsNorm = NormForwardKernel<T, true, false>;
template <typename T>
using AddRmsNorm = NormForwardKernel<T, true, true>;

}  // namespace

std::unique_ptr<Kernel> make_rms_norm(const Context& context, const compiler::Graph& graph, const compiler::Op& op) {
  return make_for<RmsNorm, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

std::unique_ptr<Kernel> make_add_rms_norm(const Context& context, const compiler::Graph& graph,
                                          const compiler::Op& op) {
  return make_for<AddRmsNorm, Kernel>(kernels::input(graph, op, 0).dtype, context, graph, op);
}

}  // namespace l2l::device::cuda
