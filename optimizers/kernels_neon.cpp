#include "optimizers/kernel_table.h"
#include "optimizers/vector/pack_neon.h"

namespace l2l::optimizers {

const Kernels& neon_kernels();
const Kernels& neon_kernels() {
  static const Kernels table = TableMaker<neon::Pack>::make("neon");
  return table;
}

}  // namespace l2l::optimizers
