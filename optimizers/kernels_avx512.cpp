#include "optimizers/kernel_table.h"
#include "optimizers/vector/pack_avx512.h"

namespace l2l::optimizers {

const Kernels& avx512_kernels();
const Kernels& avx512_kernels() {
  static const Kernels table = TableMaker<avx512::Pack>::make("avx512");
  return table;
}

}  // namespace l2l::optimizers
