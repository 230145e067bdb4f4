#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct HardSwishGradient {
  __attribute__((always_inline)) float operator()(float dy, float x) const {
    return x <= -3.0f ? 0.0f : x >= 3.0f ? dy : dy * (x * (1.0f / 3.0f) + 0.5f);
  }
};

}  // namespace

const Factory make_hard_swish_backward = make_for_output<TwoInputs<HardSwishGradient>::OfType>;

}  // namespace l2l::device::kernels
