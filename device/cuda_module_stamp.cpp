#include "device/abi_hash.h"  // written by device/cuda/abi_hash.py
#include "device/cuda_module.h"

namespace l2l::device::cuda {

std::string module_stamp() { return "l2l 2, " __VERSION__ ", abi " L2L_ABI_HASH; }

}  // namespace l2l::device::cuda
