#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct HardSigmoidGradient {
  __attribute__((always_inline)) float operator()(float dy, float x) const {
    return x <= -3.0f || x >= 3.0f ? 0.0f : dy * (1.0f / 6.0f);
  }
};

}  // namespace

const Factory make_hard_sigmoid_backward = make_for_output<TwoInputs<HardSigmoidGradient>::OfType>;

}  // namespace l2l::device::kernels
