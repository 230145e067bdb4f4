#include "device/cuda/module.h"
#include "device/seam_hash.h"  // written by device/cuda/seam_hash.py

namespace l2l::device::cuda {

std::string module_stamp() { return "l2l 2, " __VERSION__ ", seam " L2L_SEAM_HASH; }

}  // namespace l2l::device::cuda
