#include "optimizers/checksum_loop.h"
#include "optimizers/vector/pack_avx2.h"

namespace l2l::optimizers {

ChecksumKernel avx2_checksum();
ChecksumKernel avx2_checksum() { return checksum_loop<avx2::Pack>; }

}  // namespace l2l::optimizers
