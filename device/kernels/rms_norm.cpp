#include "device/kernels/factories.h"
#include "device/kernels/norm_forward.h"

namespace l2l::device::kernels {
namespace {

template <typename T>
using RmsNorm = NormForward<T, true>;

}  // namespace

std::unique_ptr<Kernel> make_rms_norm(const compiler::Graph& graph, const compiler::Op& op) {
  return make_for_dtype<RmsNorm>(graph, op, output(graph, op, 0).dtype);
}

}  // namespace l2l::device::kernels
