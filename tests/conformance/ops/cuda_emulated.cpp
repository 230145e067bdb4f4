#include "tests/conformance/ops/cuda_support.h"
#include "tests/emulation/runtime.h"

namespace l2l::test {

std::vector<int> cuda_variants() { return {0, 1, 2}; }

void choose_cuda_variant(int variant) { emulation::set_order(static_cast<emulation::Order>(variant)); }

}  // namespace l2l::test
