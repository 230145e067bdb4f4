#include "device/kernels/activations.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

template <typename Activation>
struct Value {
  __attribute__((always_inline)) float operator()(float x) const { return Activation::value(x); }
};

}  // namespace

const Factory make_gelu = [](const OpView& op) {
  return (op.attributes.exact ? make_for_output<OneInput<Value<ExactGelu>>::OfType>
                              : make_for_output<OneInput<Value<TanhGelu>>::OfType>)(op);
};

}  // namespace l2l::device::kernels
