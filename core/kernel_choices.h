// Which of several kernels a device took by their times where bits depend on it, so that other devices and later runs
// can take the same.
#pragma once

#include <map>
#include <string>

namespace l2l {

// The kernel for each problem, by what it was timed on: a GPU with a version of a library ("H100 (sm_90, 132 SMs),
// cuBLASLt 13.0.2"). Problems and kernels are texts that the device alone reads.
using KernelChoices = std::map<std::string, std::map<std::string, std::string>>;

}  // namespace l2l
