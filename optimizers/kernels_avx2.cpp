#include "optimizers/kernel_table.h"
#include "optimizers/vector/pack_avx2.h"

namespace l2l::optimizers {

const Kernels& avx2_kernels();
const Kernels& avx2_kernels() {
  static const Kernels table = TableMaker<avx2::Pack>::make("avx2");
  return table;
}

}  // namespace l2l::optimizers
