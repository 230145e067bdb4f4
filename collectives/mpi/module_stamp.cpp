#include "collectives/mpi/module.h"
#include "collectives/mpi_abi_hash.h"  // written by device/cuda/abi_hash.py

namespace l2l::collectives::mpi {

std::string module_stamp() { return "l2l 1, " __VERSION__ ", abi " L2L_ABI_HASH; }

}  // namespace l2l::collectives::mpi
