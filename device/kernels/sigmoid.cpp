#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"
#include "device/kernels/vector_math.h"

namespace l2l::device::kernels {
namespace {

struct Sigmoid {
  __attribute__((always_inline)) float operator()(float x) const { return 1.0f / (1.0f + fast_exp(-x)); }
};

}  // namespace

const Factory make_sigmoid = make_for_output<OneInput<Sigmoid>::OfType>;

}  // namespace l2l::device::kernels
