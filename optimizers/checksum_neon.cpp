#include "optimizers/checksum_loop.h"
#include "optimizers/vector/pack_neon.h"

namespace l2l::optimizers {

ChecksumKernel neon_checksum();
ChecksumKernel neon_checksum() { return checksum_loop<neon::Pack>; }

}  // namespace l2l::optimizers
