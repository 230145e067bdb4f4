#include "optimizers/checksum_loop.h"
#include "optimizers/vector/pack_portable.h"

namespace l2l::optimizers {

ChecksumKernel portable_checksum();
ChecksumKernel portable_checksum() { return checksum_loop<portable::Pack>; }

}  // namespace l2l::optimizers
