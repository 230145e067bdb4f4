#include "device/kernels/activations.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct SiluValue {
  __attribute__((always_inline)) float operator()(float x) const { return Silu::value(x); }
};

}  // namespace

const Factory make_silu = make_for_output<OneInput<SiluValue>::OfType>;

}  // namespace l2l::device::kernels
