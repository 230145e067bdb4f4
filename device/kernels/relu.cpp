#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct Relu {
  __attribute__((always_inline)) float operator()(float x) const { return x <= 0 ? 0.0f : x; }
};

}  // namespace

const Factory make_relu = make_for_output<OneInput<Relu>::OfType>;

}  // namespace l2l::device::kernels
