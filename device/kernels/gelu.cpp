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

const Factory make_gelu = [](const OpView& op) {
  return (op.attributes.exact ? make_for_output<OneInput<ExactGelu>::OfType>
                              : make_for_output<OneInput<TanhGelu>::OfType>)(op);
};

}  // namespace l2l::device::kernels
