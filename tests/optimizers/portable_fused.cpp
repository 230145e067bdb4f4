#include "tests/optimizers/portable_fused.h"

#include "optimizers/vector/pack_portable.h"

namespace l2l::testing {

using Pack = optimizers::portable::Pack;

void portable_fused_sum(const float* x, const float* y, const float* z, float* result) {
  fused_sum(Pack::load(x), Pack::load(y), Pack::load(z)).store(result);
}
void double_rounded_sum(const float* x, const float* y, const float* z, float* result) {
  for (int i = 0; i < 16; ++i) {
    const double product = static_cast<double>(x[i]) * static_cast<double>(y[i]);
    result[i] = static_cast<float>(product + static_cast<double>(z[i]));
  }
}

}  // namespace l2l::testing
