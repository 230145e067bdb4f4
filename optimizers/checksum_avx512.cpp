#include "optimizers/checksum_loop.h"
#include "optimizers/vector/pack_avx512.h"

namespace l2l::optimizers {

ChecksumKernel avx512_checksum();
ChecksumKernel avx512_checksum() { return checksum_loop<avx512::Pack>; }

}  // namespace l2l::optimizers
