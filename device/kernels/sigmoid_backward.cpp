#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct SigmoidGradient {
  __attribute__((always_inline)) float operator()(float dy, float y) const { return dy * (y * (1.0f - y)); }
};

}  // namespace

const Factory make_sigmoid_backward = make_for_output<TwoInputs<SigmoidGradient>::OfType>;

}  // namespace l2l::device::kernels
