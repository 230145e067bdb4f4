#include "device/kernels/gelu.h"

#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct TanhGelu {
  __attribute__((always_inline)) float operator()(float x) const { return x / (1.0f + gelu_exponential(x)); }
};

struct ExactGelu {
  __attribute__((always_inline)) float operator()(float x) const {
    return x * normal_distribution(x, normal_exponential(x));
  }
};

}  // namespace

std::unique_ptr<Kernel> make_gelu(const compiler::Graph& graph, const compiler::Op& op) {
  const DType dtype = output(graph, op, 0).dtype;
  return op.attributes.exact ? make_for_dtype<OneInput<ExactGelu>::OfType>(graph, op, dtype)
                             : make_for_dtype<OneInput<TanhGelu>::OfType>(graph, op, dtype);
}

}  // namespace l2l::device::kernels
