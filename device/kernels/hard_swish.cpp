#include <algorithm>

#include "device/kernels/elementwise.h"
#include "device/kernels/factories.h"

namespace l2l::device::kernels {
namespace {

struct HardSwish {
  __attribute__((always_inline)) float operator()(float x) const {
    return x * (std::clamp(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f));
  }
};

}  // namespace

const Factory make_hard_swish = make_for_output<OneInput<HardSwish>::OfType>;

}  // namespace l2l::device::kernels
