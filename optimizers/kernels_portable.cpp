#include "optimizers/kernel_table.h"
#include "optimizers/vector/pack_portable.h"

namespace l2l::optimizers {

const Kernels& portable_kernels();
const Kernels& portable_kernels() {
  static const Kernels table = TableMaker<portable::Pack>::make("portable");
  return table;
}

}  // namespace l2l::optimizers
