#include "device/kernels/activations.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct SiluGradient {
  __attribute__((always_inline)) float operator()(float dy, float x) const { return dy * Silu::derivative(x).slope; }
};

}  // namespace

const Factory make_silu_backward = make_for_output<TwoInputs<SiluGradient>::OfType>;

}  // namespace l2l::device::kernels
