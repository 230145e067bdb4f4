#include "device/kernels/activations.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename Activation>
struct Gradient {
  __attribute__((always_inline)) float operator()(float dy, float x) const {
    return dy * Activation::derivative(x).slope;
  }
};

}  // namespace

const Factory make_gelu_backward = [](const OpView& op) {
  return (op.attributes.exact ? make_for_output<TwoInputs<Gradient<ExactGelu>>::OfType>
                              : make_for_output<TwoInputs<Gradient<TanhGelu>>::OfType>)(op);
};

}  // namespace l2l::device::kernels
